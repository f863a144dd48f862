// The elements of some rows of a walk, and their numbers in the document.
(walk, wanted) => {
  const S = globalThis.__piChrome;
  if (!S || S.walk !== walk) return ['[]'];
  const nodeType = Function.prototype.call.bind(Object.getOwnPropertyDescriptor(Node.prototype, 'nodeType').get);
  const nums = [], elements = [];
  for (const i of wanted) {
    const el = S.rows[i];
    if (!el || nodeType(el) !== 1) continue;
    let n = el[S.num];
    if (n === undefined) { n = S.next++; el[S.num] = n; }
    nums.push(n);
    elements.push(el);
  }
  return [JSON.stringify(nums), ...elements];
}
