/**
 * Projects what an evaluation gave into JSON with markers, in the page's own
 * world, and returns it as { thrown, value }, each object in value as { k: its
 * keys, v: its values }.
 *
 * The page may have replaced any global, any method of a prototype and any
 * property of Object.prototype and Array.prototype. So this function relies on
 * syntax, tries every built-in on a known value before it uses it, makes
 * objects without a prototype, and fills arrays whose items exist already.
 * Numbers and shapes are those of cdpmodel/project.go, its model.
 *
 * @param {{thrown: boolean, value: any}} run - what the expression gave or threw
 * @param {boolean} awaited - whether value is a promise to wait for
 * @returns {any} the result, or a promise of it
 */
(run, awaited) => {
  'use strict';
  const MAX_NODES = 512, MAX_DEPTH = 12, MAX_ENTRIES = 128, MAX_STRING = 2000, MAX_KEY = 256;
  const TAG = 'PiChromeEvaluationMarker';

  /** Returns the first of the built-ins that the page left working, or null. */
  const sane = (test, first, second) => {
    for (let i = 0; i < 2; i++) {
      try {
        const f = i === 0 ? first() : second();
        if (typeof f === 'function' && test(f) === true) return f;
      } catch { /* the page broke it */ }
    }
    return null;
  };
  const none = () => null;
  const ObjectOf = () => ({}).constructor; // where the global is gone
  const apply = sane((f) => f(function (a) { return this.x + a; }, { __proto__: null, x: 1 }, [2]) === 3,
    () => Reflect.apply, none);
  const getPrototypeOf = sane((f) => f({ __proto__: null }) === null && f({ __proto__: run }) === run,
    () => Reflect.getPrototypeOf, () => ObjectOf().getPrototypeOf);
  const keysOf = sane((f) => { const k = f({ __proto__: null, a: 1 }); return k.length === 1 && k[0] === 'a'; },
    () => Object.keys, () => ObjectOf().keys);
  const symbolsOf = sane((f) => f({ __proto__: null, a: 1 }).length === 0,
    () => Object.getOwnPropertySymbols, () => ObjectOf().getOwnPropertySymbols);
  const descriptorOf = sane((f) => f({ __proto__: null, a: 1 }, 'a').enumerable === true && f({ __proto__: null }, 'a') === void 0,
    () => Reflect.getOwnPropertyDescriptor, () => ObjectOf().getOwnPropertyDescriptor);
  const isArray = sane((f) => f([]) === true && f({ __proto__: null }) === false,
    () => Array.isArray, () => [].constructor.isArray);
  const isError = sane((f) => f({ __proto__: null }) === false, () => Error.isError, none);
  const tagger = apply && sane((f) => apply(f, [], []) === '[object Array]', () => ({}).toString, none);
  const sourcer = apply && sane((f) => apply(f, () => 1, []) === '() => 1', () => (() => 0).toString, none);
  const objectPrototype = getPrototypeOf ? getPrototypeOf({}) : null;

  let nodes = 0, count = 0;
  const seen = { __proto__: null }, active = { __proto__: null };

  // An array whose items exist: assigning to them cannot meet a setter that
  // the page put on Array.prototype.
  const slots = () => [
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0,
  ];

  /**
   * What an object travels as: its keys and its values. The order of properties
   * does not survive every way to the driver, that of a list does.
   */
  const pack = (object) => {
    const k = slots(), v = slots();
    let n = 0;
    for (const key in object) {
      k[n] = key;
      v[n] = object[key];
      n++;
    }
    k.length = v.length = n;
    return { __proto__: null, k, v };
  };

  /** The first units of s, one less where the cut would part a pair. */
  const cut = (s, limit) => {
    let out = '';
    for (let i = 0; i < limit; i++) {
      const c = s[i];
      if (i === limit - 1 && c >= '\ud800' && c <= '\udbff') break;
      out += c;
    }
    return out;
  };
  const text = (s) => s.length <= MAX_STRING ? s
    : pack({ __proto__: null, _tag: TAG, kind: 'StringTruncated', prefix: cut(s, MAX_STRING), originalLength: s.length });
  const undefinedMarker = () => pack({ __proto__: null, _tag: TAG, kind: 'Undefined' });

  /** What a person reads of something thrown. */
  const messageOf = (e) => {
    try {
      if (e !== null && typeof e === 'object' && typeof e.message === 'string') return text(e.message);
      if (typeof e !== 'symbol' && typeof e !== 'function') return text(`${e}`);
    } catch { /* its own message throws */ }
    return 'something was thrown that has no message';
  };

  const describe = (symbol) => {
    try {
      const d = symbol.description;
      if (typeof d === 'string') return text(d);
    } catch { /* the page broke it */ }
    return undefinedMarker();
  };

  const number = (n) => {
    if (n !== n) return pack({ __proto__: null, _tag: TAG, kind: 'NonFiniteNumber', value: 'NaN' });
    if (n === 1 / 0) return pack({ __proto__: null, _tag: TAG, kind: 'NonFiniteNumber', value: 'Infinity' });
    if (n === -1 / 0) return pack({ __proto__: null, _tag: TAG, kind: 'NonFiniteNumber', value: '-Infinity' });
    if (n === 0 && 1 / n < 0) return pack({ __proto__: null, _tag: TAG, kind: 'NegativeZero' });
    return n;
  };

  const property = (object, key, depth) => {
    let value;
    try {
      value = object[key];
    } catch (e) {
      return pack({ __proto__: null, _tag: TAG, kind: 'PropertyAccessError', message: messageOf(e) });
    }
    return project(value, depth + 1);
  };

  const typedTags = {
    __proto__: null, '[object Uint8Array]': 1, '[object Int8Array]': 1, '[object Uint8ClampedArray]': 1, '[object Uint16Array]': 1,
    '[object Int16Array]': 1, '[object Uint32Array]': 1, '[object Int32Array]': 1, '[object Float16Array]': 1, '[object Float32Array]': 1,
    '[object Float64Array]': 1, '[object BigInt64Array]': 1, '[object BigUint64Array]': 1, '[object String]': 1,
  };

  /**
   * The own enumerable keys: strings, then symbols, as { total, strings, 0: …, 1: … } with at most MAX_ENTRIES of them.
   * Long typed arrays are not asked for their keys, which would make millions of strings.
   */
  const entriesOf = (object, tag) => {
    const found = { __proto__: null, total: 0, strings: 0 };
    const add = (key) => {
      if (found.total < MAX_ENTRIES) found[found.total] = key;
      found.total++;
    };
    if (typedTags[tag] && typeof object.length === 'number' && object.length > MAX_ENTRIES) {
      for (let i = 0; i < MAX_ENTRIES; i++) add(`${i}`);
      found.total = found.strings = object.length;
      return found;
    }
    if (keysOf) {
      const keys = keysOf(object);
      for (let i = 0; i < MAX_ENTRIES && i < keys.length; i++) if (typeof keys[i] === 'string') add(keys[i]);
      if (keys.length > MAX_ENTRIES) found.total = keys.length;
    } else {
      // Without Object.keys the syntax for copying tells them, unless a
      // getter throws: then shape reports the object as it stands.
      const copy = { __proto__: null, ...object };
      for (const key in copy) add(key);
    }
    found.strings = found.total;
    const symbols = symbolsOf ? symbolsOf(object) : null;
    for (let i = 0; symbols && i < symbols.length; i++) {
      const key = symbols[i];
      if (typeof key !== 'symbol') continue;
      const d = descriptorOf ? descriptorOf(object, key) : null;
      if (!descriptorOf || (d && d.enumerable)) add(key);
    }
    return found;
  };

  const body = (object, tag, id, depth) => {
    const keys = entriesOf(object, tag);
    let plain = keys.total <= MAX_ENTRIES && keys.strings === keys.total;
    for (let i = 0; plain && i < keys.total; i++) {
      if (keys[i].length > MAX_KEY) plain = false;
      // An object that says it is a marker must not be taken for one.
      if (keys[i] === '_tag') {
        try {
          if (object._tag === TAG) plain = false;
        } catch { /* told as the property's own error */ }
      }
    }
    if (plain) {
      const out = { __proto__: null };
      for (let i = 0; i < keys.total; i++) out[keys[i]] = property(object, keys[i], depth);
      return pack(out);
    }
    const entries = slots();
    let n = 0;
    for (; n < keys.total && n < MAX_ENTRIES; n++) {
      const k = keys[n];
      let key = k;
      if (typeof k === 'symbol') key = pack({ __proto__: null, _tag: TAG, kind: 'SymbolKey', description: describe(k) });
      else if (k.length > MAX_KEY) key = pack({ __proto__: null, _tag: TAG, kind: 'KeyTruncated', prefix: cut(k, MAX_KEY), originalLength: k.length });
      entries[n] = pack({ __proto__: null, key, value: property(object, k, depth) });
    }
    entries.length = n;
    return pack({ __proto__: null, _tag: TAG, kind: 'ObjectEntryProjection', referenceId: id, entries, omitted: keys.total - n, limit: MAX_ENTRIES });
  };

  const items = (list, depth) => {
    const out = slots();
    const length = typeof list.length === 'number' ? list.length : 0;
    let n = 0;
    for (; n < length && n < MAX_ENTRIES; n++) {
      const hole = descriptorOf ? descriptorOf(list, `${n}`) === void 0 : !(n in list);
      out[n] = hole ? pack({ __proto__: null, _tag: TAG, kind: 'ArrayHole', index: n }) : property(list, n, depth);
    }
    if (length > n) {
      out[n] = pack({ __proto__: null, _tag: TAG, kind: 'CollectionLimit', collection: 'Array', omitted: length - n, limit: MAX_ENTRIES });
      n++;
    }
    out.length = n;
    return out;
  };

  const textual = (object, key, depth) => {
    let value;
    try {
      value = object[key];
    } catch (e) {
      return pack({ __proto__: null, _tag: TAG, kind: 'PropertyAccessError', message: messageOf(e) });
    }
    return typeof value === 'string' ? text(value) : project(value, depth + 1);
  };

  /** The eight numbers of a DOMRect, or null for anything else. */
  const rectangle = (object, keys) => {
    try {
      const { x, y, width, height, top, right, bottom, left } = object;
      for (const n in { __proto__: null, x, y, width, height, top, right, bottom, left }) {
        if (typeof object[n] !== 'number') return null;
      }
      if (keys.strings > 0 && typeof object.toJSON !== 'function') return null;
      return pack({
        __proto__: null, x: number(x), y: number(y), width: number(width), height: number(height),
        top: number(top), right: number(right), bottom: number(bottom), left: number(left),
      });
    } catch {
      return null;
    }
  };

  const tagOf = (object) => {
    try {
      if (tagger) return apply(tagger, object, []);
    } catch { /* its toStringTag throws */ }
    return '[object Object]';
  };

  const nameOf = (object) => {
    try {
      const name = object.constructor.name;
      if (typeof name === 'string' && name !== '') return text(name);
    } catch { /* it has no constructor that can be read */ }
    return 'Object';
  };

  const shape = (object, id, depth) => {
    const proto = getPrototypeOf ? getPrototypeOf(object) : object.__proto__;
    if (typeof object === 'function') {
      const source = sourcer ? apply(sourcer, object, []) : `${object}`;
      return pack({ __proto__: null, _tag: TAG, kind: 'Function', referenceId: id, source: text(source) });
    }
    const tag = tagOf(object);
    if (isArray ? isArray(object) : tag === '[object Array]') return items(object, depth);
    if ((isError && isError(object)) || tag === '[object Error]' || tag === '[object DOMException]') {
      return pack({
        __proto__: null, _tag: TAG, kind: 'Error', referenceId: id,
        name: textual(object, 'name', depth), message: textual(object, 'message', depth), stack: textual(object, 'stack', depth),
      });
    }
    // The second test is for plain objects of another frame.
    if (proto === null || proto === objectPrototype ||
      (getPrototypeOf && getPrototypeOf(proto) === null && descriptorOf && descriptorOf(proto, 'isPrototypeOf') !== void 0)) {
      return body(object, tag, id, depth);
    }
    const rect = rectangle(object, entriesOf(object, tag));
    if (rect) return rect;
    return pack({
      __proto__: null, _tag: TAG, kind: 'NonPlainObject', referenceId: id,
      constructorName: nameOf(object), objectTag: text(tag), properties: body(object, tag, id, depth),
    });
  };

  const project = (value, depth) => {
    nodes++;
    if (nodes > MAX_NODES) return pack({ __proto__: null, _tag: TAG, kind: 'NodeLimit', limit: MAX_NODES });
    if (value === null) return null;
    if (value === void 0) return undefinedMarker();
    switch (typeof value) {
      case 'string': return text(value);
      case 'boolean': return value;
      case 'number': return number(value);
      case 'bigint': return pack({ __proto__: null, _tag: TAG, kind: 'BigInt', value: text(`${value}`) });
      case 'symbol': return pack({ __proto__: null, _tag: TAG, kind: 'Symbol', description: describe(value) });
    }
    for (let i = 1; i <= count; i++) {
      if (seen[i] === value) {
        return pack({ __proto__: null, _tag: TAG, kind: active[i] ? 'CircularReference' : 'SharedReference', referenceId: i });
      }
    }
    if (depth >= MAX_DEPTH) return pack({ __proto__: null, _tag: TAG, kind: 'DepthLimit', depth, limit: MAX_DEPTH });
    const id = ++count;
    seen[id] = value;
    active[id] = true;
    let out;
    try {
      out = shape(value, id, depth);
    } catch (e) {
      out = pack({ __proto__: null, _tag: TAG, kind: 'UninspectableObject', referenceId: id, message: messageOf(e) });
    }
    active[id] = false;
    return out;
  };

  if (!awaited || run.thrown) return { __proto__: null, thrown: run.thrown, value: project(run.value, 0) };
  return (async () => {
    let value;
    try {
      value = await run.value;
    } catch (e) {
      return { __proto__: null, thrown: true, value: project(e, 0) };
    }
    return { __proto__: null, thrown: false, value: project(value, 0) };
  })();
}
