// Calls one of the input functions that input_*.js put into this world, with
// the element that it is called on, or says that they are not there yet: none
// of them ("all"), or not this one ("part").
async function ({version, name, args}) {
  const lib = globalThis.__piChromeInput;
  if (!lib || lib.version !== version) return {missing: 'all'};
  if (!lib[name]) return {missing: 'part'};
  return {value: await lib[name](this, ...args)};
}
