// Marks the elements that listen for clicks, so that walks give them numbers,
// and says which row of the walk each is.
//
// Returns {rewalk, nodes: [[num, row, x, y, width, height, flags]]}: num -1 is
// the document or its body, 0 another document's node. flags are those of
// js/walk.js that only candidates have. rewalk: a closed shadow root was found.
(walk, ...nodes) => {
  const S = globalThis.__piChrome;
  const out = [];
  let rewalk = false;
  if (!S || S.walk !== walk) return {rewalk: true, nodes: nodes.map(() => [0, -1, 0, 0, 0, 0, 0])};
  const call = Function.prototype.call;
  const box = call.bind(Element.prototype.getBoundingClientRect), matches = call.bind(Element.prototype.matches), all = call.bind(Element.prototype.querySelectorAll);
  const get = (name) => call.bind(Object.getOwnPropertyDescriptor(Node.prototype, name).get);
  const rootNode = call.bind(Node.prototype.getRootNode), type = get('nodeType'), owner = get('ownerDocument');
  const rows = new Map();
  for (let i = 0; i < S.rows.length; i++) rows.set(S.rows[i], i);
  for (const node of nodes) {
    if (node === document || node === document.documentElement || node === document.body) { out.push([-1, -1, 0, 0, 0, 0, 0]); continue; }
    // What came here from another document is no instance of our classes.
    if (type(node) !== 1 || owner(node) !== document) { out.push([0, -1, 0, 0, 0, 0, 0]); continue; }
    for (let root = rootNode(node); type(root) === 11 && root.host; root = rootNode(root.host)) {
      if (root.mode === 'closed' && !S.closed.has(root.host)) { S.closed.set(root.host, root); rewalk = true; }
    }
    let n = node[S.num];
    if (n === undefined) { n = S.next++; node[S.num] = n; }
    const at = rows.get(node);
    const r = box(node);
    let flags = 0;
    if (r.width > 0 && r.height > 0) {
      flags |= 1;
      if (r.bottom > 0 && r.right > 0 && r.top < innerHeight && r.left < innerWidth) flags |= 2;
      if (r.right + scrollX <= 0 || r.bottom + scrollY <= 0) flags |= 4194304;
    } else {
      // An inline element around a floating one has no box of its own.
      const within = all(node, '*');
      for (let i = 0; i < within.length && i < 50; i++) {
        const b = box(within[i]);
        if (b.width > 0 && b.height > 0) { flags |= 1; break; }
      }
    }
    if (getComputedStyle(node).pointerEvents === 'none') flags |= 128;
    if (matches(node, ':disabled')) flags |= 512;
    out.push([n, at === undefined ? -1 : at, Math.round(r.x), Math.round(r.y), Math.round(r.width), Math.round(r.height), flags]);
  }
  return {rewalk, nodes: out};
}
