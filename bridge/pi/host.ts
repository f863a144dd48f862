// The program behind the tools: one child process, spoken to in JSON lines.
//
// A line from here is {id, method, params}; a line back is {id, result},
// {id, error}, {id, progress} or {event, …}. Lines end with a line feed and
// nothing else: U+2028 and U+2029 are text.

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { StringDecoder } from "node:string_decoder";
import { fileURLToPath } from "node:url";

/** What a failed request tells; the same fields as on every other surface. */
export interface Failure {
  kind: string;
  code: string;
  message: string;
  hint?: string;
  details?: Record<string, unknown>;
  /** Message and hint as a model is to read them. */
  text: string;
}

export class HostError extends Error {
  readonly failure: Failure;
  constructor(failure: Failure) {
    super(failure.text);
    this.name = "HostError";
    this.failure = failure;
  }
}

export interface Progress {
  done: number;
  total: number;
  note: string;
}

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
  progress?(p: Progress): void;
}

const maxLine = 64 * 1024 * 1024; // characters; a picture is at most 16 MB
const maxStderr = 4000; // characters kept of what the program says last

/** The command that starts the program, without arguments. */
export function program(): string {
  if (process.env.PI_CHROME_BIN) return process.env.PI_CHROME_BIN;
  const note = join(dirname(fileURLToPath(import.meta.url)), "program.json");
  try {
    const known = JSON.parse(readFileSync(note, "utf8"));
    if (typeof known.path === "string" && existsSync(known.path)) return known.path;
  } catch {
    // Not installed by `pi-chrome pi install`: the PATH decides.
  }
  return "pi-chrome";
}

export class Host {
  private readonly child: ChildProcessWithoutNullStreams;
  private readonly waiting = new Map<number, Waiting>();
  private readonly ended: Promise<void>;
  private next = 1;
  private failed: Error | undefined;
  private stderr = "";

  constructor(
    private readonly command: string,
    cwd: string,
    private readonly onEvent: (name: string, data: Record<string, unknown>) => void,
  ) {
    this.child = spawn(command, ["pi-host"], { cwd, stdio: ["pipe", "pipe", "pipe"], windowsHide: true });
    this.ended = new Promise((resolve) => {
      this.child.once("error", (error: NodeJS.ErrnoException) => {
        this.fail(this.notStarted(error));
        resolve();
      });
      this.child.once("close", (code, signal) => {
        const why = this.stderr.trim() || `it ended with ${signal ?? `code ${code}`}`;
        this.fail(this.stopped(why));
        resolve();
      });
    });
    // A program that has gone is told by `close`; a failed write adds nothing.
    this.child.stdin.on("error", () => {});
    this.child.stderr.on("data", (data: Buffer) => {
      this.stderr = (this.stderr + data.toString("utf8")).slice(-maxStderr);
    });
    this.read();
  }

  /** Whether requests can still be made. */
  get alive(): boolean {
    return this.failed === undefined;
  }

  private notStarted(error: NodeJS.ErrnoException): HostError {
    const missing = error.code === "ENOENT";
    const message = missing
      ? `the program ${this.command} was not found, so Chrome cannot be used; nothing was sent`
      : `the program ${this.command} could not be started: ${error.message}; nothing was sent`;
    const hint = "Install pi-chrome, then run: pi-chrome pi install (or set PI_CHROME_BIN to its path), and /reload.";
    return new HostError({ kind: "unavailable", code: "pi-host-missing", message, hint, text: `${message}\n${hint}` });
  }

  private stopped(why: string): HostError {
    const message = `pi-chrome pi-host stopped (${why}); a call that was under way may have had its effect`;
    const hint = "Run /reload, then look at the page before you repeat the last step.";
    return new HostError({ kind: "outcome-unknown", code: "pi-host-stopped", message, hint, text: `${message}\n${hint}` });
  }

  private fail(error: Error): void {
    if (this.failed) return;
    this.failed = error;
    for (const w of this.waiting.values()) w.reject(error);
    this.waiting.clear();
    this.onEvent("stopped", { message: error.message });
  }

  private read(): void {
    const decoder = new StringDecoder("utf8");
    let rest = "";
    this.child.stdout.on("data", (data: Buffer) => {
      rest += decoder.write(data);
      if (rest.length > maxLine) {
        this.fail(this.stopped("a line was too long"));
        this.child.kill();
        return;
      }
      for (let at = rest.indexOf("\n"); at >= 0; at = rest.indexOf("\n")) {
        this.line(rest.slice(0, at));
        rest = rest.slice(at + 1);
      }
    });
  }

  private line(text: string): void {
    let message: Record<string, unknown>;
    try {
      message = JSON.parse(text);
    } catch {
      this.fail(this.stopped("it wrote what is no JSON"));
      this.child.kill();
      return;
    }
    if (typeof message.event === "string") {
      this.onEvent(message.event, message);
      return;
    }
    const w = this.waiting.get(message.id as number);
    if (!w) return; // its caller has gone
    if (message.progress) {
      w.progress?.(message.progress as Progress);
      return;
    }
    this.waiting.delete(message.id as number);
    if (message.error) w.reject(new HostError(message.error as Failure));
    else w.resolve(message.result);
  }

  /**
   * Asks the program for one thing. An aborted signal cancels it there; the
   * promise settles when the program has told what became of it.
   */
  request<T>(method: string, params: unknown, options: { signal?: AbortSignal; progress?(p: Progress): void } = {}): Promise<T> {
    if (this.failed) return Promise.reject(this.failed);
    const id = this.next++;
    const { signal, progress } = options;
    return new Promise<T>((resolve, reject) => {
      const abort = () => this.write({ id, method: "cancel" });
      const settle = () => signal?.removeEventListener("abort", abort);
      this.waiting.set(id, {
        resolve: (value) => {
          settle();
          resolve(value as T);
        },
        reject: (error) => {
          settle();
          reject(error);
        },
        progress,
      });
      this.write({ id, method, params });
      if (signal?.aborted) abort();
      else signal?.addEventListener("abort", abort, { once: true });
    });
  }

  private write(message: unknown): void {
    this.child.stdin.write(`${JSON.stringify(message)}\n`);
  }

  /** Ends the program: it is asked to, then made to. */
  async close(graceMs: number): Promise<void> {
    this.child.stdin.end();
    const timer = setTimeout(() => this.child.kill("SIGKILL"), graceMs);
    await this.ended;
    clearTimeout(timer);
  }
}
