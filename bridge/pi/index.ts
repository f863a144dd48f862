// The Pi extension: it registers what `pi-chrome pi-host` describes.

import type { ExtensionAPI } from "@mariozechner/pi-coding-agent";

import { HostError } from "./host.ts";
import { callLine, resultText, type TextClass, type Theme } from "./render.ts";
import { message, Session, type Tool } from "./session.ts";

interface CallResult {
  text: string;
  value?: unknown;
  images?: { mimeType: string; data: string }[];
  commandId?: string;
  elapsedMs?: number;
}

/** Whether a run of this Pi sees tools that are activated while it runs. */
function takesToolsMidRun(version: string): boolean {
  const [major = 0, minor = 0, patch = 0] = version.split(".").map((part) => Number.parseInt(part, 10));
  return major > 0 || minor > 80 || (minor === 80 && patch >= 6);
}

export default async function (pi: ExtensionAPI) {
  // Without Pi's Text component calls and results have Pi's own look.
  const Text: TextClass | undefined = await import("@mariozechner/pi-tui").then(
    (tui) => tui.Text as unknown as TextClass,
    () => undefined,
  );
  const midRun = await import("@mariozechner/pi-coding-agent").then(
    (agent) => takesToolsMidRun(agent.VERSION),
    () => true,
  );
  const session = new Session(pi, (tools) => tools.forEach(register));
  // Tools were enabled in a run that cannot take them: it is continued anew.
  let goOn = false;

  function register(tool: Tool): void {
    const rendering = Text
      ? {
          renderCall: (args: Record<string, unknown>, theme: Theme) => new Text(callLine(tool.label, args, theme), 0, 0),
          renderResult: (result: never, options: { expanded: boolean; isPartial: boolean }, theme: Theme, context?: { isError?: boolean }) =>
            new Text(resultText(result, options, context?.isError ?? false, theme), 0, 0),
        }
      : {};
    pi.registerTool({
      name: tool.name,
      label: tool.label,
      description: tool.description,
      promptSnippet: tool.promptSnippet,
      parameters: tool.parameters as never,
      ...(rendering as object),
      async execute(_id: string, params: Record<string, unknown>, signal, onUpdate, ctx) {
        if (tool.name === session.opened?.enable.name) {
          const { text, details } = session.enable(String(params.profile));
          goOn = !midRun && details.enabled.length > 0;
          return { content: [{ type: "text", text }], details, terminate: goOn };
        }
        const images = (ctx.model?.input ?? []).includes("image");
        const progress = (p: { done: number; total: number; note: string }) => {
          const text = p.total > 0 ? `${p.note} ${p.done}/${p.total}` : p.note;
          onUpdate?.({ content: [{ type: "text", text }], details: { progress: p } });
        };
        try {
          const result = await session.request<CallResult>("call", { tool: tool.name, input: params, images }, { signal, progress });
          const pictures = (result.images ?? []).map((image) => ({ type: "image" as const, ...image }));
          return {
            content: [{ type: "text" as const, text: result.text }, ...pictures],
            details: { value: result.value, commandId: result.commandId, elapsedMs: result.elapsedMs },
          };
        } catch (error) {
          // Pi marks a result as an error only when execute throws.
          if (error instanceof HostError) throw new Error(error.failure.text, { cause: error.failure });
          throw error;
        }
      },
    });
  }

  pi.registerCommand("chrome", {
    description: "Chrome: status, onboard, authorize, revoke and more (/chrome help)",
    getArgumentCompletions: (prefix: string) => {
      const all = session.opened?.subcommands ?? [];
      const items = all.filter((s) => s.name.startsWith(prefix)).map((s) => ({ value: s.name, label: s.usage, description: s.summary }));
      return items.length > 0 ? items : null;
    },
    handler: async (args, ctx) => {
      try {
        await session.command(args.trim(), ctx);
      } catch (error) {
        ctx.ui.notify(message(error), "error");
      }
    },
  });

  pi.on("agent_end", () => {
    if (!goOn) return;
    goOn = false;
    // After the handlers, when Pi has come to rest: a message before that joins
    // the run that ends.
    setTimeout(() => {
      pi.sendMessage({ customType: "pi-chrome", content: "The enabled Chrome tools are available now. Go on with the task.", display: false }, { triggerTurn: true });
    }, 0);
  });
  pi.on("session_start", (_event, ctx) => session.start(ctx));
  pi.on("session_tree", () => session.tree());
  pi.on("session_shutdown", (event) => session.shutdown(event.reason ?? "quit"));
}
