// Types that the checker of `make ext` needs beyond those of Chrome; not shipped.

interface Challenge {
  bridgeEpoch: string;
  requestNonce: string;
  serverFingerprint: string;
  proof: string;
}

interface Refusal {
  code: string; // of docs/protocol.md, or "extension" when the worker itself failed
  message: string;
  scope?: string;
}

/** One socket and how far its handshake has come. */
interface Link {
  socket: WebSocket;
  scope: string; // "connector" or "pairing": the credential class, and the path
  key: string; // the secret or the token, in hex
  hello: { connectorId: string; fingerprint: string; clientNonce: string; [field: string]: unknown };
  step: string; // "hello", "proving", "prove", then "offered" or "ready"
  challenge?: Challenge;
  heard: number; // when the last frame came
  readyAt: number; // Infinity before
  timer?: number; // ends a handshake that hangs
}

/** What the worker tells the popup. */
interface State extends Partial<Refusal> {
  status: "connected" | "pairing" | "refused" | "waiting" | "unpaired";
  port: number; // 0 before the first look at bridge.json
}

interface Navigator {
  userAgentData: {
    getHighEntropyValues(hints: string[]): Promise<{ fullVersionList: { brand: string; version: string }[] }>;
  };
}

/** The owner's status as one profile may see it; bridge/wire/popup.go describes each field. */
interface Projection {
  kind: string;
  version: number;
  state: "ready" | "waiting-for-extension" | "offline" | "error";
  bridge: "running" | "stopped" | "error";
  connector?: { id: string; label: string; connected: boolean; lastSeenAt?: string };
  extensionDirectory: string;
  errorMessage?: string;
  stoppedAt?: string;
  debuggerCanceled?: boolean;
  sessions: ProjectedSession[];
  moreSessions?: number;
  elsewhere?: number;
  receipts: ProjectedReceipt[];
}

interface ProjectedSession {
  key: string;
  title?: string;
  authorization: "locked" | "until" | "indefinite";
  expiresAt?: string;
  queued: number;
  executing: number;
  lastUsedAt?: string;
  tabs: ProjectedTab[];
}

interface ProjectedTab {
  id: number;
  state: "allocating" | "owned" | "stale";
  holder: "session" | "user";
  title?: string;
  url?: string;
  claimed?: boolean;
}

interface ProjectedReceipt {
  at: string;
  session: string;
  operation: string;
  title: string;
  tabId?: number;
  outcome: string;
  code?: string;
  message?: string;
  elapsedMs: number;
}
