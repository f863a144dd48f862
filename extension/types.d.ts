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
