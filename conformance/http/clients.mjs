// The npm client: writes messages as a producer, or reads all of two writers, through whatever happens to the nodes.
//
//   node clients.mjs write URL COUNT
//   node clients.mjs read URL COUNT sse|long-poll     prints each message on a line of its own

import { DurableStream, IdempotentProducer } from "@durable-streams/client"

const [, , mode, url, countText, live] = process.argv
const count = Number(countText)
const backoffOptions = { initialDelay: 50, maxDelay: 500, multiplier: 1.3, maxRetries: Infinity }
const contentType = "application/json"
const pause = (ms) => new Promise((done) => setTimeout(done, ms))

// The client's own producer gives up at the first connection that is lost. Its numbers make it safe to ask again, so whoever uses it hands it a
// fetch that does. (The client's createFetchWithBackoff is none: it takes a 409 away, by which the producer learns what is missing.)
let again = 0
async function insistently(...request) {
  for (;;) {
    try {
      const response = await fetch(...request)
      if (response.status !== 503) return response
      await response.arrayBuffer()
    } catch (error) {
      if (error.name === "AbortError") throw error
    }
    again += 1
    await pause(50)
  }
}

async function write() {
  const stream = new DurableStream({ url, contentType, backoffOptions })
  let failed
  const producer = new IdempotentProducer(stream, "npm", { fetch: insistently, onError: (error) => (failed = error) })
  for (let number = 0; number < count; number++) {
    producer.append(JSON.stringify({ by: "npm", number }))
    if (number % 10 === 9) await pause(25)
    if (failed) throw failed
  }
  await producer.flush()
  if (failed) throw failed
  for (; again > 0; again--) console.error("again")
}

async function read() {
  let offset = "-1"
  let left = 2 * count
  while (left > 0) {
    // A read that the client gives up is begun again where its last batch ended.
    const stop = new AbortController()
    try {
      const response = await new DurableStream({ url, contentType, backoffOptions }).stream({
        offset,
        live,
        json: true,
        signal: stop.signal,
      })
      await new Promise((done, gaveUp) => {
        response.closed.then(done, gaveUp)
        response.subscribeJson((batch) => {
          for (const item of batch.items) console.log(`${item.by} ${item.number}`)
          left -= batch.items.length
          offset = batch.offset
          if (left <= 0) done()
        })
      })
    } catch (error) {
      console.error(`read again from ${offset}: ${error}`)
      await pause(100)
    }
    stop.abort()
  }
}

await (mode === "write" ? write() : read())
process.exit(0)
