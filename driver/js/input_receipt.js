// Puts the functions that tell what an input changed into this world: armed
// before the input, read when the page has come to rest.
function () {
  const lib = globalThis.__piChromeInput;
  const {up, nearest, describe, frame, shown, CONTROL} = lib.tools;
  const MAX_CONTROLS = 1000, MAX_NODES = 40, MAX_NOTES = 12;
  const SECRET = /password|passwd|pwd|secret|token|bearer|api.?key|access.?key|auth.?code|one.?time|otp|2fa|mfa|verification.?code|recovery.?code|credit.?card|card.?number|cc-number|cc-csc|\bcvc\b|\bcvv\b|security.?code|\bssn\b|social.?security/i;
  const STATES = ['aria-expanded', 'aria-checked', 'aria-pressed', 'aria-selected', 'aria-invalid', 'aria-current', 'open', 'disabled', 'hidden'];

  const line = (s, max) => {
    const t = String(s || '').replace(/\s+/g, ' ').trim();
    return t.length > max ? t.slice(0, max - 1) + '…' : t;
  };

  const labelText = (el) => el.ariaLabel || (el.labels && el.labels[0] && [...el.labels[0].childNodes].filter((n) => !n.contains(el)).map((n) => n.textContent).join(' ').trim()) ||
    el.getAttribute('placeholder') || el.getAttribute('title') || el.getAttribute('alt') || '';

  const secret = (el) => el.type === 'password' ||
    SECRET.test(['name', 'id', 'autocomplete', 'data-testid'].map((a) => el.getAttribute(a) || '').concat(labelText(el)).join(' '));

  /** What a thing is called in a receipt: checkbox "Box". */
  const call = (el) => {
    if (!el || el.nodeType !== 1) return '';
    const kind = el.getAttribute('role') || (el.localName === 'input' ? el.type : el.localName);
    const field = el.matches('input,textarea,select') || el.isContentEditable;
    const name = line(labelText(el) || (field ? '' : el.textContent), 60);
    return name ? `${kind} ${JSON.stringify(name)}` : describe(el);
  };

  const active = () => {
    let el = document.activeElement;
    while (el && el.shadowRoot && el.shadowRoot.activeElement) el = el.shadowRoot.activeElement;
    return el && el !== document.body && el !== document.documentElement ? el : null;
  };

  const stateOf = (el) => {
    if (el.localName === 'input' && (el.type === 'checkbox' || el.type === 'radio')) return {checked: el.indeterminate ? 'mixed' : String(el.checked)};
    if (el.localName === 'select') return {value: [...el.selectedOptions].map((o) => o.label).join(', ')};
    return {value: el.value};
  };

  const fields = (roots) => {
    const list = new Map();
    for (const el of [lib.target, lib.control]) if (el && el.isConnected && el.matches('input,textarea,select')) list.set(el, stateOf(el));
    for (const root of roots) {
      for (const el of root.querySelectorAll('input:not([type=hidden]):not([type=button]):not([type=submit]),textarea,select')) {
        if (list.size >= MAX_CONTROLS) return list;
        if (!list.has(el)) list.set(el, stateOf(el));
      }
    }
    return list;
  };

  /**
   * Starts to listen. The element of the last aim, or of the last control, is
   * the one whose own tree is watched too.
   */
  lib.arm = () => {
    lib.disarm();
    const roots = [document];
    for (let n = lib.target; n; n = up(n)) if (n.parentNode instanceof ShadowRoot && !roots.includes(n.parentNode)) roots.push(n.parentNode);
    const scrolled = new Map();
    const onScroll = (event) => { if (scrolled.size < 20) scrolled.set(event.target, true); };
    const a = lib.armed = {
      roots, scrolled, count: 0, added: new Set(), removed: new Set(), attributes: new Map(), old: new Map(),
      url: location.href, title: document.title, focus: active(), x: scrollX, y: scrollY, fields: fields(roots),
    };
    a.observer = new MutationObserver((list) => take(list));
    for (const root of roots) {
      a.observer.observe(root, {subtree: true, childList: true, attributes: true, attributeOldValue: true, characterData: true, characterDataOldValue: true});
      root.addEventListener('scroll', onScroll, {capture: true, passive: true});
    }
    a.stop = () => {
      a.observer.disconnect();
      for (const root of roots) root.removeEventListener('scroll', onScroll, {capture: true});
    };
    // Nobody may come to ask: a watch left on costs the page.
    a.timer = setTimeout(() => { if (lib.armed === a) lib.disarm(); }, 30000);
    return {};
  };

  lib.disarm = () => {
    const a = lib.armed;
    if (!a) return;
    clearTimeout(a.timer);
    a.stop();
    lib.armed = null;
  };

  const take = (list) => {
    const a = lib.armed;
    if (!a) return;
    for (const m of list) {
      if (document.head && document.head.contains(m.target)) continue; // a title or a style sheet is no content
      a.count++;
      // What a text said before, so that only what was added to it is told.
      const was = m.type === 'characterData' ? m.oldValue : m.removedNodes.length === 1 && m.removedNodes[0].nodeType === 3 ? m.removedNodes[0].data : null;
      const where = m.type === 'characterData' ? m.target.parentNode : m.target;
      if (was && a.old.size < MAX_NODES && !a.old.has(where)) a.old.set(where, was);
      if (m.type === 'characterData' && a.added.size < MAX_NODES) a.added.add(m.target);
      for (const n of m.addedNodes || []) if (a.added.size < MAX_NODES) a.added.add(n);
      for (const n of m.removedNodes || []) if (a.removed.size < MAX_NODES) a.removed.add(n);
      if (m.type === 'attributes' && STATES.includes(m.attributeName) && a.attributes.size < MAX_NODES) {
        const key = m.target;
        if (!a.attributes.has(key)) a.attributes.set(key, new Map());
        const seen = a.attributes.get(key);
        if (!seen.has(m.attributeName)) seen.set(m.attributeName, m.oldValue);
      }
    }
  };

  const things = (nodes, want) => {
    const out = [];
    for (const n of nodes) {
      if (n.nodeType !== 1) continue;
      for (const el of [n, ...n.querySelectorAll(CONTROL)]) {
        if (out.length >= MAX_NOTES) return out;
        if (el.matches(CONTROL) && want(el) && !out.includes(el)) out.push(el);
      }
    }
    return out;
  };

  const report = (busy, waited) => {
    const a = lib.armed;
    take(a.observer.takeRecords());
    const notes = [];
    for (const [el, before] of a.fields) {
      if (notes.length >= MAX_NOTES) break;
      if (!el.isConnected) continue;
      const after = stateOf(el);
      for (const what of Object.keys(after)) {
        if (after[what] === before[what]) continue;
        const hide = what === 'value' && secret(el);
        notes.push({what, of: call(el), self: el === lib.target || el === lib.control,
          before: hide ? `(${before[what].length} characters)` : line(before[what], 80),
          after: hide ? `(${after[what].length} characters)` : line(after[what], 80)});
      }
    }
    for (const [el, seen] of a.attributes) {
      for (const [name, old] of seen) {
        if (notes.length >= MAX_NOTES) break;
        const now = el.getAttribute(name);
        if (now === old || !el.isConnected) continue;
        const flag = (v) => (name.startsWith('aria-') ? v ?? 'none' : v === null ? 'false' : 'true');
        notes.push({what: name.replace('aria-', ''), of: call(el), self: el === lib.target, before: flag(old), after: flag(now)});
      }
    }
    const added = [...a.added].filter((n) => n.isConnected && (n.nodeType === 3 || (n.nodeType === 1 && shown(n))));
    const text = [];
    for (const n of added) {
      if (text.length >= 3) break;
      if (n.nodeType === 1 && n.matches('script,style,link,meta')) continue;
      const was = a.old.get(n.parentNode) || '';
      const t = line(n.nodeType !== 3 ? n.innerText : n.data.startsWith(was) ? n.data.slice(was.length) : n.data, 120);
      if (t && !text.some((other) => other.includes(t))) text.push(t);
    }
    const gone = [...a.removed].filter((n) => !n.isConnected);
    const focus = active();
    const out = {
      url: location.href, urlBefore: a.url, title: document.title, titleBefore: a.title,
      focus: focus ? call(focus) : '', focusChanged: focus !== a.focus,
      scrollX, scrollY, scrollChanged: scrollX !== a.x || scrollY !== a.y || a.scrolled.size > 0, scrolledPage: scrollX !== a.x || scrollY !== a.y,
      mutations: a.count, notes, text,
      appeared: things(added, (el) => shown(el)).map(call),
      vanished: things(gone, (el) => !el.isConnected).map(call),
      busy, waited,
    };
    lib.disarm();
    return out;
  };

  /**
   * Waits until so many frames in a row have brought nothing new, at most
   * limit ms, and tells what has changed since arm.
   */
  lib.settle = async (_, limit, frames) => {
    const a = lib.armed;
    if (!a) return {missed: true};
    const start = performance.now();
    const sign = () => {
      take(a.observer.takeRecords());
      return [a.count, location.href, scrollX, scrollY, a.scrolled.size, document.title].join('|');
    };
    let last = sign(), busy = false;
    for (let quiet = 0; quiet < frames;) {
      await frame();
      if (lib.armed !== a) return {missed: true};
      const now = sign();
      quiet = now === last ? quiet + 1 : 0;
      last = now;
      if (performance.now() - start > limit) { busy = quiet < frames; break; }
    }
    return report(busy, Math.round(performance.now() - start));
  };

  Object.assign(lib.tools, {secret, call, active, line, labelText});
}
