// The element, what contains it out of shadow roots, and the document: where
// listeners for its events can be.
(el) => {
  const list = [];
  for (let n = el; n && list.length < 64; n = n.assignedSlot || (n instanceof ShadowRoot ? n.host : n.parentNode)) list.push(n);
  if (!list.includes(document)) list.push(document);
  return list;
}
