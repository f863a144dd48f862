// One session of Pi and what it may do. Only the newest epoch may change
// anything: whatever started before a switch, fork or reload is told so.

import type { ExtensionAPI, ExtensionContext } from "@mariozechner/pi-coding-agent";

import { Host, type Progress, program } from "./host.ts";

/** Customs of the session's file that are ours. */
export const entryType = "pi-chrome-authorization";

/** What is written to the session's branch; the owner's word wins over it. */
export interface Entry {
  version: 1;
  mode: "locked" | "until" | "indefinite";
  until?: string; // RFC 3339
  background: boolean;
}

export interface Tool {
  name: string;
  label: string;
  profile: string;
  description: string;
  promptSnippet: string;
  parameters: Record<string, unknown>;
}

export interface Subcommand {
  name: string;
  usage: string;
  summary: string;
}

interface Opened {
  version: string;
  tools: Tool[];
  enable: Tool & { already: string; enabled: string };
  subcommands: Subcommand[];
}

interface Restored {
  authorization: { mode: Entry["mode"]; until?: string };
  background: boolean;
  append?: Entry;
}

export interface Reply {
  text: string;
  level: "info" | "warning" | "error";
  confirm?: { title: string; message: string };
  append?: Entry;
}

const cleanupMs = 2000; // the bound of a session's end
const closeMs = 500;

/** The profile that an authorization activates. */
const core = "core";

export class Session {
  opened: Opened | undefined;
  private host: Host | undefined;
  private ctx: ExtensionContext | undefined;
  private epoch = 0;
  private queue: Promise<unknown> = Promise.resolve();
  private authorization: Restored["authorization"] = { mode: "locked" };
  private timer: NodeJS.Timeout | undefined;
  private enabled = new Set<string>();
  // The session's file could not be written: what it says is unknown until a
  // lock has been written to it.
  private poisoned = false;

  constructor(
    private readonly pi: ExtensionAPI,
    private readonly register: (tools: Tool[]) => void,
  ) {}

  /** Runs one transition after the other. */
  private transition<T>(run: () => Promise<T>): Promise<T> {
    const result = this.queue.then(run, run);
    this.queue = result.catch(() => {});
    return result;
  }

  start(ctx: ExtensionContext): Promise<void> {
    const epoch = ++this.epoch;
    return this.transition(async () => {
      this.ctx = ctx;
      const id = ctx.sessionManager.getSessionId();
      const title = `Pi Session: ${ctx.sessionManager.getSessionName() || id}`.slice(0, 80);
      this.host = new Host(program(), ctx.cwd, (name, data) => this.event(epoch, name, data));
      try {
        this.opened = await this.host.request<Opened>("open", { protocol: 1, session: { key: `session:${id}`, title }, cwd: ctx.cwd });
      } catch (error) {
        this.lockTools();
        this.status("chrome: not available");
        ctx.ui.notify(message(error), "error");
        return;
      }
      this.register([...this.opened.tools, this.opened.enable]);
      await this.restore(epoch);
    });
  }

  /** The branch has changed within the session: what it says holds now. */
  tree(): Promise<void> {
    const epoch = ++this.epoch;
    return this.transition(() => this.restore(epoch));
  }

  private async restore(epoch: number): Promise<void> {
    this.lockTools();
    const { ctx, host } = this;
    if (!ctx || !host?.alive || epoch !== this.epoch) return;
    const ours = (entry: { type: string; customType?: string }) => entry.type === "custom" && entry.customType === entryType;
    const branch = ctx.sessionManager.getBranch().filter(ours).at(-1) as { data?: unknown } | undefined;
    const elsewhere = ctx.sessionManager.getEntries().some(ours);
    const restored = await host.request<Restored>("restore", { branch: branch ? (branch.data ?? {}) : null, elsewhere });
    if (epoch !== this.epoch) return;
    if (restored.append) this.append(restored.append);
    this.authorized(restored.authorization);
  }

  /** Ends the session; its tabs are closed unless it only reloads. */
  shutdown(reason: string): Promise<void> {
    this.epoch++;
    return this.transition(async () => {
      const host = this.host;
      this.host = undefined;
      clearTimeout(this.timer);
      if (!host) return;
      if (reason !== "reload" && host.alive) {
        const bound = AbortSignal.timeout(cleanupMs);
        await Promise.race([host.request("cleanup", {}).catch(() => {}), new Promise((resolve) => bound.addEventListener("abort", resolve))]);
      }
      await host.close(closeMs);
    });
  }

  request<T>(method: string, params: unknown, options: { signal?: AbortSignal; progress?(p: Progress): void } = {}): Promise<T> {
    if (!this.host) return Promise.reject(new Error("the session of Pi that asked has ended; nothing was sent"));
    return this.host.request<T>(method, params, options);
  }

  /** Runs `/chrome …` and applies what it changed. */
  async command(args: string, ctx: ExtensionContext): Promise<void> {
    const epoch = this.epoch;
    let reply = await this.request<Reply>("chrome", { args });
    if (reply.confirm) {
      if (!ctx.hasUI || !(await ctx.ui.confirm(reply.confirm.title, reply.confirm.message))) {
        ctx.ui.notify("Nothing was changed.", "info");
        return;
      }
      reply = await this.request<Reply>("chrome", { args, confirmed: true });
    }
    if (reply.append && epoch === this.epoch) {
      const locked = reply.append.mode === "locked";
      if (this.append(reply.append)) {
        if (locked) this.poisoned = false;
        this.authorized(reply.append);
      }
    }
    ctx.ui.notify(reply.text, reply.level);
  }

  /** Activates a profile's tools and returns what the model is told. */
  enable(profile: string): { text: string; details: { profile: string; enabled: string[]; active: string[] } } {
    const names = (this.opened?.tools ?? []).filter((tool) => tool.profile === profile).map((tool) => tool.name);
    const active = new Set(this.pi.getActiveTools());
    const enabled = names.filter((name) => !active.has(name));
    const { already = "", enabled: done = "" } = this.opened?.enable ?? {};
    this.enabled.add(profile);
    this.pi.setActiveTools([...active, ...enabled]);
    const text = (enabled.length > 0 ? done : already).replace("{profile}", profile).replace("{tools}", enabled.join(", "));
    return { text, details: { profile, enabled, active: names } };
  }

  private append(entry: Entry): boolean {
    try {
      this.pi.appendEntry(entryType, entry);
      return true;
    } catch (error) {
      this.poisoned = true;
      this.lockTools();
      void this.host?.request("chrome", { args: "revoke" }).catch(() => {});
      this.ctx?.ui.notify(`The session's file could not be written (${message(error)}): Chrome is locked. Run /chrome revoke, then authorize again.`, "error");
      return false;
    }
  }

  private authorized(authorization: Restored["authorization"]): void {
    clearTimeout(this.timer);
    const until = authorization.until ? Date.parse(authorization.until) : Number.POSITIVE_INFINITY;
    const left = until - Date.now();
    if (authorization.mode === "locked" || left <= 0 || this.poisoned) {
      this.authorization = { mode: "locked" };
      this.lockTools();
      return;
    }
    this.authorization = authorization;
    if (Number.isFinite(left)) {
      // The owner enforces the deadline; this only takes the tools away. Longer
      // than 24 days a timer cannot wait.
      this.timer = setTimeout(() => this.authorized({ mode: "locked" }), Math.min(left, 2 ** 31 - 1));
      this.timer.unref();
    }
    const wanted = (this.opened?.tools ?? []).filter((tool) => tool.profile === core || this.enabled.has(tool.profile)).map((tool) => tool.name);
    if (this.opened) wanted.push(this.opened.enable.name);
    this.pi.setActiveTools([...new Set([...this.pi.getActiveTools(), ...wanted])]);
    const time = authorization.until ? ` until ${new Date(authorization.until).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}` : "";
    this.status(`chrome: authorized${time}`);
  }

  private lockTools(): void {
    clearTimeout(this.timer);
    const ours = new Set([...(this.opened?.tools ?? []).map((tool) => tool.name), this.opened?.enable.name]);
    this.pi.setActiveTools(this.pi.getActiveTools().filter((name) => !ours.has(name)));
    this.status("chrome: locked");
  }

  private status(text: string): void {
    this.ctx?.ui.setStatus("pi-chrome", text);
  }

  private event(epoch: number, name: string, data: Record<string, unknown>): void {
    if (epoch !== this.epoch && name !== "stopped") return;
    switch (name) {
      case "authorization": // changed by another: popup, shell, or its deadline
        if (data.mode === "locked" && this.authorization.mode !== "locked") {
          this.append({ version: 1, mode: "locked", background: data.background !== false });
          this.authorized({ mode: "locked" });
          this.ctx?.ui.notify("Chrome was locked for this session from outside Pi.", "warning");
        }
        break;
      case "stopped":
        if (this.host) {
          this.lockTools();
          this.status("chrome: not available");
        }
        break;
    }
  }
}

export function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
