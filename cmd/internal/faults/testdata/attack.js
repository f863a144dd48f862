// Asks the owner's port for everything, in every way that a page has, for some
// time. It returns what it got: nothing.
(async (port, paths, ms) => {
  const got = [];
  const until = performance.now() + ms;
  let asked = 0;
  const note = (what, value) => value && got.push(`${what}: ${value}`);
  const socket = (host, path) =>
    new Promise((done) => {
      const s = new WebSocket(`ws://${host}:${port}${path}`);
      s.onopen = () => done(note(`socket ${host}${path}`, "open"));
      s.onmessage = ({ data }) => note(`socket ${host}${path}`, data);
      s.onerror = () => done();
      s.onclose = () => done();
    });
  const ask = (host, path, options) =>
    fetch(`http://${host}:${port}${path}`, options).then(
      async (answer) => note(`${options.method} ${host}${path}`, answer.ok || (await answer.text())),
      () => {},
    );
  do {
    const all = [];
    for (const host of ["127.0.0.1", "localhost"]) {
      for (const path of paths) {
        all.push(socket(host, path), ask(host, path, { method: "GET" }), ask(host, path, { method: "GET", mode: "no-cors", credentials: "include" }));
        all.push(ask(host, path, { method: "POST", mode: "no-cors", body: "{}" }), ask(host, path, { method: "PUT", body: "{}" }));
        navigator.sendBeacon(`http://${host}:${port}${path}`, "x");
        asked += 6;
      }
    }
    await Promise.all(all);
  } while (performance.now() < until);
  return { got, asked };
})
