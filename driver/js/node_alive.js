/**
 * Whether the element with that number in this document still stands in it, and
 * whether it is still what js/detail.js saw: list items that scroll into view
 * take over the elements of those that left.
 *
 * Returns {found, renamed, other, was, is}. renamed: it is called something
 * else now, such as Pause in place of Play. other: what its item says is
 * something else, or its name where the item says nothing more. was and is
 * are how it was and is called, or what the item said and says where the name
 * is the same.
 */
(token, num) => {
  const S = globalThis.__piChrome;
  if (!S || S.token !== token) return {found: false};
  const el = S.byNum.get(num)?.deref();
  // A form's fields may hide its own properties.
  const get = (name) => Object.getOwnPropertyDescriptor(Node.prototype, name).get.call(el);
  if (!el || !get('isConnected') || get('ownerDocument') !== document) return {found: false};
  const told = S.told?.get(num);
  if (!told) return {found: true};
  const now = S.evidence(el, true);
  const renamed = now.own !== told.own;
  const words = (s) => new Set(s.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean));
  let other = false;
  if (now.item && (now.rest || told.rest)) {
    // Half of what the item says, or more, is something else.
    const a = words(told.rest), b = words(now.rest);
    let both = 0;
    for (const w of a) if (b.has(w)) both++;
    other = now.rest !== told.rest && 2 * both <= a.size + b.size - both;
  } else if (now.item && renamed && now.href + told.href) {
    other = now.href !== told.href;
  } else if (now.item && renamed) {
    // Of items that are called alike, another one is called alike but for the
    // word that told it apart; what a toggle says is like none beside it.
    const beside = words(now.near), is = words(now.own), was = [...words(told.own)];
    other = was.some((w) => beside.has(w)) && !was.some((w) => !beside.has(w) && is.has(w));
  }
  if (!renamed && !other) return {found: true};
  return {found: true, renamed, other, was: renamed ? told.own : told.rest, is: renamed ? now.own : now.rest};
}
