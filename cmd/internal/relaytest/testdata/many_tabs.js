// Opens tabs behind the others, waits until they have loaded, discards every
// third of them and returns how many are discarded.
async (count, url) => {
  const ids = [];
  for (let n = 0; n < count; n++) ids.push((await chrome.tabs.create({ url: `${url}?${n}`, active: false })).id);
  while ((await chrome.tabs.query({ status: "loading" })).length) await new Promise((done) => setTimeout(done, 100));
  for (let n = 0; n < ids.length; n += 3) await chrome.tabs.discard(ids[n]);
  return (await chrome.tabs.query({ discarded: true })).length;
}
