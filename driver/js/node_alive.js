// Whether the element with that number in this document still stands in it.
(token, num) => {
  const state = globalThis.__piChrome;
  if (!state || state.token !== token) return {found: false};
  const el = state.byNum.get(num)?.deref();
  return {found: !!el && el.isConnected && el.ownerDocument === document};
}
