import { runConformanceTests } from "@durable-streams/server-conformance-tests"

// Where tokens are asked for each request shows one.
const token = process.env.CONFORMANCE_TOKEN
if (token) {
  const asked = globalThis.fetch
  globalThis.fetch = (input, init = {}) => {
    const headers = new Headers(init.headers ?? (input instanceof Request ? input.headers : undefined))
    if (!headers.has("Authorization")) headers.set("Authorization", `Bearer ${token}`)
    return asked(input, { ...init, headers })
  }
}

runConformanceTests({
  baseUrl: process.env.CONFORMANCE_TEST_URL,
  longPollTimeoutMs: Number(process.env.LONG_POLL_MS ?? 500),
  subscriptions: process.env.SUBSCRIPTIONS === "1",
})
