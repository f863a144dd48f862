// One part of what a long walk found and keeps: they are counted on through all
// four lists of meta.kept. Each may be asked for once; null where it is there no
// more.
(walk, i) => {
  const S = globalThis.__piChrome, of = S && S.kept.get(walk);
  if (!of || of.all[i] === undefined) return null;
  const part = of.all[i];
  of.all[i] = undefined;
  if (--of.left === 0) S.kept.delete(walk);
  return part;
}
