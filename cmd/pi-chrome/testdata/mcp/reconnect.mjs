// An owner that ends under a connection is started anew by the next call.
//
//	node reconnect.mjs NODE_MODULES PORT STATE_DIR
import { execFileSync } from 'node:child_process'
import { pathToFileURL } from 'node:url'
import path from 'node:path'

const [modules, port, stateDir] = process.argv.slice(2)
const sdk = name => import(pathToFileURL(path.join(modules, '@modelcontextprotocol/sdk/dist/esm', name)))
const { Client } = await sdk('client/index.js')
const { StdioClientTransport } = await sdk('client/stdio.js')

const where = [`--port=${port}`, `--state-dir=${stateDir}`]
const client = new Client({ name: 'reconnect', version: '1.0.0' })
await client.connect(new StdioClientTransport({ command: 'pi-chrome', args: ['mcp', '--session=kept', ...where], stderr: 'inherit' }))
const owner = async () => JSON.parse((await client.callTool({ name: 'chrome_status', arguments: {} })).content[0].text)
const first = await owner()
console.log(execFileSync('pi-chrome', ['stop', ...where], { encoding: 'utf8' }).trim())
const second = await owner()
console.log(`another owner: ${first.bridge.pid !== second.bridge.pid}, the same session: ${first.session.key} ${second.session.key}`)
await client.close()
