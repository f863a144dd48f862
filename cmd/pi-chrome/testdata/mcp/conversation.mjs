// A conversation of the official TypeScript client with `pi-chrome mcp`, told
// on stdout. What differs from run to run is written in capitals.
//
//   node conversation.mjs NODE_MODULES SITE [HTTP]
//
// With HTTP the server runs beside it and is spoken to at its address; the
// conversation is the same.
import { spawn, execFileSync } from 'node:child_process'
import { pathToFileURL } from 'node:url'
import { createInterface } from 'node:readline'
import path from 'node:path'

const [modules, site, http] = process.argv.slice(2)
const sdk = name => import(pathToFileURL(path.join(modules, '@modelcontextprotocol/sdk/dist/esm', name)))
const { Client } = await sdk('client/index.js')
const { StdioClientTransport } = await sdk('client/stdio.js')
const { StreamableHTTPClientTransport } = await sdk('client/streamableHttp.js')
const { ToolListChangedNotificationSchema, ResourceListChangedNotificationSchema } = await sdk('types.js')

const plain = text => text
  .replaceAll(site, 'SITE')
  .replaceAll(process.env.WORK, 'WORK')
  .replace(/mcp:[0-9a-f]{8}\b/g, 'mcp:KEY')
  .replace(/\(\d+ ms\)/g, '(N ms)')
  .replace(/on tab \d+/g, 'on tab N')
  .replace(/\d{13}-[0-9a-f-]{36}/g, 'PICTURE')
// What a receipt saw beside the action depends on the moment.
const steady = text => text.replace(/( completed): .*/g, '$1').replace(/^(focus|text|hidden of|page): .*\n?/gm, '').replace(/^hidden of .*\n?/gm, '')
const say = (head, text) => console.log(`\n## ${head}\n` + (text === undefined ? '' : plain(text).trimEnd() + '\n'))

// once resolves with the next notification of a kind.
const once = schema => new Promise(resolve => client.setNotificationHandler(schema, resolve))

// show tells a result as a model and a program see it.
function show(head, result) {
  const parts = result.content.map(part => {
    if (part.type !== 'image') return part.text
    const data = Buffer.from(part.data, 'base64')
    const ok = part.mimeType === 'image/png' ? data.subarray(1, 4).toString() === 'PNG' : data.readUInt16BE() === 0xffd8
    return `(a picture, ${part.mimeType}, ${ok ? 'good' : 'bad'})`
  })
  const error = result.structuredContent?.error
  if (error) parts.push(`(structured: ok ${result.structuredContent.ok}, ${error.kind}, ${error.code}, hint ${Boolean(error.hint)}, command ${Boolean(result.structuredContent.commandId)})`)
  else if (result.structuredContent) parts.push('(structured content)')
  say((result.isError ? 'error of ' : '') + head, steady(parts.join('\n')))
  return result
}
const call = async (name, args = {}, options) => show(name, await client.callTool({ name, arguments: args }, undefined, options))

const client = new Client({ name: 'conversation', version: '1.0.0' })
let server
if (http) {
  server = spawn('pi-chrome', ['mcp', '--http', '--http-port', '0', '--json'], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = await new Promise(resolve => createInterface(server.stdout).once('line', (...line) => resolve(line)))
  const { url, token } = JSON.parse(line).value
  const refusals = []
  for (const headers of [{}, { authorization: 'Bearer ' + '0'.repeat(64) }, { authorization: `Bearer ${token}`, origin: 'http://localhost:3000' }]) {
    refusals.push((await fetch(url, { method: 'POST', headers })).status)
  }
  console.error(`refused: ${refusals.join(' ')}`)
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { authorization: `Bearer ${token}` } } }))
} else {
  await client.connect(new StdioClientTransport({ command: 'pi-chrome', args: ['mcp'], env: process.env, stderr: 'inherit' }))
}
const { name, version } = client.getServerVersion()
say('connected', `${name} ${version}\n${JSON.stringify(client.getServerCapabilities())}\n\n${client.getInstructions()}`)

const list = async () => (await client.listTools()).tools
say('tools', (await list()).map(t => `${t.name}${t.annotations.readOnlyHint ? ' (reads)' : ''}`).join('\n'))

// Locked, until the user runs the command that the error names.
const locked = await call('chrome_navigate', { url: site + '/shop/checkout' })
const [, command] = /(pi-chrome authorize --session \S+) on a command line/.exec(locked.content[0].text)
say('user', `$ ${command}\n` + execFileSync('/bin/sh', ['-c', command], { encoding: 'utf8' }))

await call('chrome_navigate', { url: site + '/shop/product/alba-desk-lamp', waitUntilLoad: true })
const page = await call('chrome_snapshot', { mode: 'interactive' })
const ref = (result, words) => {
  const line = result.content[0].text.split('\n').find(line => line.includes(words))
  return /(el-\d+)/.exec(line)[1]
}
await call('chrome_fill', { ref: ref(page, '"Size"'), text: 'Small' })
await call('chrome_click', { ref: ref(page, 'Add to cart') })
const form = await call('chrome_navigate', { url: site + '/shop/checkout', waitUntilLoad: true, snapshot: { mode: 'forms' } })
await call('chrome_fill', { ref: ref(form, '"Full name"'), text: 'Ada Lovelace' })
await call('chrome_do', { steps: [
  { tool: 'chrome_fill', input: { find: { label: 'Email' }, text: 'ada@example.org' } },
  { tool: 'chrome_evaluate', input: { expression: 'document.title' } },
] })
await call('chrome_read', { query: 'Email' })

// More tools, and a picture.
const changed = once(ToolListChangedNotificationSchema)
await call('chrome_enable', { profile: 'capture' })
await changed
say('tools now', (await list()).map(t => t.name).join(' '))
await call('chrome_enable', { profile: 'capture' })
const pictured = once(ResourceListChangedNotificationSchema)
await call('chrome_screenshot', { format: 'jpeg', quality: 40 })
await pictured
const steps = []
await call('chrome_screenshot', { fullPage: true }, { onprogress: p => steps.push(p) })
const rises = steps.length > 0 && steps.every((p, i) => i === 0 || p.progress > steps[i - 1].progress)
say('progress', `told: ${steps.length > 0}, rising: ${rises}`)

// A wait that is canceled ends in the owner: the next call need not wait for it.
await call('chrome_enable', { profile: 'page' })
const abort = new AbortController()
const waiting = client.callTool({ name: 'chrome_wait', arguments: { condition: { by: 'expression', value: 'false' }, timeoutMs: 60000 } }, undefined, { signal: abort.signal })
setTimeout(() => abort.abort('the user pressed Escape'), 500)
await waiting.catch(error => say('canceled', error.message))
const before = Date.now()
await call('chrome_evaluate', { expression: 'document.title' })
say('after the cancellation', `answered at once: ${Date.now() - before < 10000}`)

// Errors.
await call('chrome_click', { ref: 'el-99999' })
await call('chrome_snapshot', { mode: 'fancy' })
await call('chrome_enable', { profile: 'fancy' })
await call('chrome_do', { steps: [{ tool: 'chrome_click', input: { ref: 'el-99999' } }, { tool: 'chrome_read' }] })
await client.callTool({ name: 'chrome_fly', arguments: {} }).catch(error => say('no tool', error.message))

// Resources and prompts.
const { resources } = await client.listResources()
say('resources', resources.map(r => `${r.uri} ${r.mimeType}`).join('\n'))
for (const r of resources) {
  const { contents: [c] } = await client.readResource({ uri: r.uri })
  say(r.uri, c.blob ? '(a picture)' : r.uri.endsWith('tabs') ? `owned: ${JSON.parse(c.text).tabs?.filter(t => t.owned).length ?? JSON.parse(c.text).filter(t => t.owned).length}` : c.text.split('\n').slice(0, 3).join('\n'))
}
await client.readResource({ uri: 'pi-chrome://screenshot/99' }).catch(error => say('no resource', error.message))
say('prompts', (await client.listPrompts()).prompts.map(p => `${p.name}: ${p.description}`).join('\n'))
const guide = await client.getPrompt({ name: 'chrome_guide', arguments: { task: 'buy a lamp' } })
const told = guide.messages[0].content.text.split('\n') // of which the middle is `pi-chrome skill`
say('chrome_guide', `${told[0]}\n…\n${told.at(-1)}`)

await client.close()
if (server) {
  server.kill('SIGTERM')
  const code = await new Promise(resolve => server.once('exit', resolve))
  console.error(`the server ended with ${code}`)
}
