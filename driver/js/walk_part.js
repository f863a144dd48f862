// One part of what a long walk found: they are counted on through all four of
// meta.parts. Each may be asked for once; null where it is there no more.
(walk, i) => {
  const S = globalThis.__piChrome, of = S && S.parts.get(walk);
  if (!of || of.all[i] === undefined) return null;
  if (--of.left === 0) S.parts.delete(walk);
  return of.all[i].toWellFormed();
}
