// How a call and its result look in Pi's transcript: one line each, the whole
// text when expanded.

/** The part of Pi's theme that is used here. */
export interface Theme {
  fg(color: string, text: string): string;
  bold(text: string): string;
}

/** Pi's Text component, which wraps to the width of the terminal. */
export type TextClass = new (text: string, paddingX: number, paddingY: number) => { render(width: number): string[]; invalidate(): void };

interface Rendered {
  content: { type: string; text?: string }[];
  details?: { error?: { code: string }; elapsedMs?: number };
}

const maxArg = 60; // characters of a value in the line of a call
const collapsedLines = 6;

function oneLine(value: unknown): string {
  const text = (typeof value === "string" ? value : JSON.stringify(value)).replace(/\s+/g, " ");
  return text.length > maxArg ? `${text.slice(0, maxArg - 1)}…` : text;
}

/** The line of a call: the tool's label and what it was given. */
export function callLine(label: string, args: Record<string, unknown> | undefined, theme: Theme): string {
  const parts = Object.entries(args ?? {})
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${oneLine(value)}`);
  const title = theme.fg("toolTitle", theme.bold(`Chrome ${label.toLowerCase()}`));
  return parts.length > 0 ? `${title} ${theme.fg("muted", parts.join(" "))}` : title;
}

/** The text of a result: its first lines, or all of it when expanded. */
export function resultText(result: Rendered, options: { expanded: boolean; isPartial: boolean }, isError: boolean, theme: Theme): string {
  const text = result.content.map((part) => (part.type === "text" ? (part.text ?? "") : `[${part.type}]`)).join("\n");
  if (options.isPartial) return theme.fg("warning", text);
  const lines = text.trimEnd().split("\n");
  const shown = options.expanded ? lines : lines.slice(0, collapsedLines);
  let out = theme.fg(isError ? "error" : "toolOutput", shown.join("\n"));
  if (shown.length < lines.length) out += `\n${theme.fg("dim", `… ${lines.length - shown.length} more line${lines.length - shown.length === 1 ? "" : "s"}`)}`;
  const took = result.details?.elapsedMs;
  if (took !== undefined) out += ` ${theme.fg("dim", `${took} ms`)}`;
  return out;
}
