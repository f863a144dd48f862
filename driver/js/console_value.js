/**
 * The parts of an object that was logged, with the markers of chrome_evaluate.
 * It runs in the world of the object and runs no getter: a getter is named.
 * What does not fit into about 1,500 characters is counted.
 *
 * An object is returned as ["o", key, value, …] and an array as ["a", item, …]:
 * the order of properties does not survive every way to the driver.
 *
 * @this {object}
 * @param {number} first - the number of this object in its message
 * @returns {any}
 */
function (first) {
  'use strict';
  const TAG = 'PiChromeEvaluationMarker', MAX_DEPTH = 5, MAX_ENTRIES = 100, MAX_STRING = 300, MAX_KEY = 256;
  const describe = Object.getOwnPropertyDescriptor, keysOf = Object.keys, prototypeOf = Object.getPrototypeOf;
  // A page may have replaced any of these: then nothing is told here.
  const probe = { __proto__: null, a: 1 }, empty = { __proto__: null }, plain = {};
  if (keysOf(probe).length !== 1 || keysOf(probe)[0] !== 'a' || describe(probe, 'a').value !== 1 || describe(empty, 'a') !== undefined ||
    prototypeOf(probe) !== null || prototypeOf(plain) !== plain.__proto__ || Array.isArray(plain) || !Array.isArray([])) return undefined;
  let left = 1500, count = first - 1;
  const seen = [], ids = [], path = [];

  const mark = (kind, fields) => ({ __proto__: null, _tag: TAG, kind, ...fields });
  const spend = (n) => { left -= n; };
  const text = (s) => {
    const room = Math.min(MAX_STRING, Math.max(left, 20));
    if (s.length <= room) { spend(s.length + 2); return s; }
    let prefix = s.slice(0, room);
    if (/[\ud800-\udbff]$/.test(prefix)) prefix = prefix.slice(0, -1);
    spend(prefix.length + 90);
    // A marker of a text names a length over its limit: shorter ones are cut plainly.
    return s.length > 2000 ? mark('StringTruncated', { prefix, originalLength: s.length }) : `${prefix}… (${s.length} characters)`;
  };
  const property = (object, key, depth) => {
    const d = describe(object, key);
    if (!d) return mark('Undefined');
    if (!('value' in d)) { spend(30); return '(a getter, which is not run)'; }
    return project(d.value, depth + 1);
  };
  const body = (object, id, depth) => {
    const keys = keysOf(object), out = { __proto__: null }, entries = [];
    let n = 0, plain = true;
    for (; n < keys.length && n < MAX_ENTRIES && left > 0; n++) {
      const key = keys[n];
      spend(key.length + 4);
      if (key.length > MAX_KEY || key === '_tag') plain = false;
      const value = property(object, key, depth);
      if (plain) out[key] = value;
      entries.push({
        __proto__: null, value,
        key: key.length > MAX_KEY ? mark('KeyTruncated', { prefix: key.slice(0, MAX_KEY - 1), originalLength: key.length }) : key,
      });
    }
    if (plain && n === keys.length) return out;
    return mark('ObjectEntryProjection', { referenceId: id, entries, omitted: keys.length - n, limit: n });
  };
  const items = (list, depth) => {
    const out = [], length = list.length;
    let n = 0;
    for (; n < length && n < MAX_ENTRIES && left > 0; n++) {
      spend(1);
      if (describe(list, `${n}`)) out.push(property(list, `${n}`, depth));
      else { spend(70); out.push(mark('ArrayHole', { index: n })); }
    }
    if (n < length) out.push(mark('CollectionLimit', { collection: 'Array', omitted: length - n, limit: n }));
    return out;
  };
  // Maps and sets show what they hold under [[Entries]].
  const held = (object, tag, depth) => {
    const out = [];
    let rest = 0;
    const add = (value, key) => {
      if (out.length >= MAX_ENTRIES || left <= 0) { rest++; return; }
      spend(3);
      out.push(tag === '[object Map]' ? [project(key, depth + 1), project(value, depth + 1)] : project(value, depth + 1));
    };
    (tag === '[object Map]' ? Map : Set).prototype.forEach.call(object, add);
    if (rest > 0) out.push(mark('CollectionLimit', { collection: 'Array', omitted: rest, limit: out.length }));
    return { __proto__: null, '[[Entries]]': out };
  };
  const nameOf = (proto) => {
    for (let p = proto, i = 0; p && i < 20; p = prototypeOf(p), i++) {
      const d = describe(p, 'constructor');
      if (d && typeof d.value === 'function') {
        const name = describe(d.value, 'name');
        if (name && typeof name.value === 'string' && name.value !== '') return name.value.slice(0, 100);
      }
    }
    return 'Object';
  };
  // What says all of an object that has no properties to show.
  const saying = (object, name) => {
    if (object instanceof Date) {
      const time = Date.prototype.getTime.call(object);
      return Number.isFinite(time) ? Date.prototype.toISOString.call(object) : 'Invalid Date';
    }
    if (object instanceof RegExp) return RegExp.prototype.toString.call(object);
    if (typeof Node === 'function' && object instanceof Node) return name;
    return '';
  };
  const shape = (object, id, depth) => {
    if (Array.isArray(object)) return items(object, depth);
    const proto = prototypeOf(object);
    if (proto === null || proto === Object.prototype) return body(object, id, depth);
    const name = nameOf(proto);
    const own = (key) => { const d = describe(object, key); return d && typeof d.value === 'string' ? d.value : ''; };
    if (typeof Error.isError === 'function' ? Error.isError(object) : object instanceof Error) {
      spend(150);
      return mark('Error', { referenceId: id, name, message: text(own('message')), stack: text(own('stack')) });
    }
    spend(150 + 2 * name.length);
    let tag = '[object Object]';
    if (object instanceof Map) tag = '[object Map]';
    else if (object instanceof Set) tag = '[object Set]';
    else if (!describe(object, Symbol.toStringTag)) tag = `[object ${name}]`;
    const said = saying(object, name);
    if (said !== '') return mark('NonPlainObject', { referenceId: id, constructorName: name, objectTag: tag, properties: { __proto__: null, '[[Description]]': text(said) } });
    const properties = tag === '[object Map]' || tag === '[object Set]' ? held(object, tag, depth)
      : ArrayBuffer.isView(object) ? { __proto__: null, '[[Bytes]]': object.byteLength } : body(object, id, depth);
    return mark('NonPlainObject', { referenceId: id, constructorName: name, objectTag: tag, properties });
  };
  const project = (value, depth) => {
    switch (typeof value) {
      case 'string': return text(value);
      case 'boolean': spend(5); return value;
      case 'undefined': spend(60); return mark('Undefined');
      case 'bigint': spend(90); return mark('BigInt', { value: text(`${value}`) });
      case 'symbol': spend(90); return mark('Symbol', { description: value.description === undefined ? mark('Undefined') : text(value.description) });
      case 'number':
        spend(8);
        if (Number.isFinite(value)) return Object.is(value, -0) ? mark('NegativeZero') : value;
        return mark('NonFiniteNumber', { value: `${value}` });
    }
    if (value === null) { spend(4); return null; }
    const at = seen.indexOf(value);
    if (at >= 0) { spend(90); return mark(path.includes(value) ? 'CircularReference' : 'SharedReference', { referenceId: ids[at] }); }
    if (typeof value === 'function') { spend(90); return mark('Function', { referenceId: ++count, source: text(Function.prototype.toString.call(value)) }); }
    if (depth >= MAX_DEPTH) { spend(90); return mark('DepthLimit', { depth, limit: MAX_DEPTH }); }
    const id = ++count;
    seen.push(value);
    ids.push(id);
    path.push(value);
    let out;
    try {
      out = shape(value, id, depth);
    } catch (e) {
      out = mark('UninspectableObject', { referenceId: id, message: 'it throws when it is looked at' });
    }
    path.pop();
    return out;
  };
  const pack = (value) => {
    if (value === null || typeof value !== 'object') return value;
    const out = [];
    if (Array.isArray(value)) {
      out.push('a');
      for (let i = 0; i < value.length; i++) out.push(pack(value[i]));
    } else {
      out.push('o');
      for (const key in value) out.push(key, pack(value[key]));
    }
    return out;
  };
  return pack(project(this, 0));
}
