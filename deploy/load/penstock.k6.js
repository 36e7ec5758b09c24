// A whole sale with k6 (1.0 or newer): each buyer looks at the sale, orders, pays and reads the order.
//
//   k6 run -e SALE=… -e TOKENS=$PWD/tokens.csv penstock.k6.js
//   k6 run -e SALE=… -e JWT_SECRET=… -e BUYERS=10000 penstock.k6.js
//
// Exits 99 if an answer is not one of a sale that goes well.

import http from 'k6/http';
import crypto from 'k6/crypto';
import encoding from 'k6/encoding';
import exec from 'k6/execution';
import { check, sleep } from 'k6';
import { Counter } from 'k6/metrics';
import { SharedArray } from 'k6/data';

const API = `${__ENV.URL || 'http://127.0.0.1:8080'}/api/v1`;
const SALE = __ENV.SALE;
if (!SALE) throw new Error('no sale given: add -e SALE=…');
if (!__ENV.TOKENS && !__ENV.JWT_SECRET) throw new Error('no buyers given: add -e TOKENS=FILE or -e JWT_SECRET=…');

const tokens = new SharedArray('tokens', () =>
  __ENV.TOKENS ? open(__ENV.TOKENS).split('\n').filter((line) => line !== '') : []);
const buyers = Number(__ENV.BUYERS) || tokens.length || 1000;
// Keys stay bound for as long as the sale exists, so each run needs new ones.
export const setup = () => `k6-${Date.now()}`;

const sold = new Counter('sold');
const soldOut = new Counter('sold_out');
const paid = new Counter('paid');
const putOff = new Counter('put_off');

export const options = {
  scenarios: {
    sale: {
      executor: 'shared-iterations',
      vus: Math.min(Number(__ENV.VUS) || 50, buyers),
      iterations: buyers,
      maxDuration: __ENV.DURATION || '10m',
    },
  },
  thresholds: { checks: ['rate==1'], http_req_failed: ['rate==0'] },
};

// The answers of a sale that goes well. Anything else counts as failed.
http.setResponseCallback(http.expectedStatuses(200, 201, 409, 429, 503));

function tokenOf(number) {
  if (tokens.length > 0) return tokens[number % tokens.length];
  const part = (value) => encoding.b64encode(JSON.stringify(value), 'rawurl');
  const claims = { sub: `k6-${number}`, exp: Math.floor(Date.now() / 1000) + 3600 };
  const text = `${part({ alg: 'HS256', typ: 'JWT' })}.${part(claims)}`;
  return `${text}.${crypto.hmac('sha256', __ENV.JWT_SECRET, text, 'base64rawurl')}`;
}

// After 429 or 503, waits for `Retry-After` and sends the same request again, under the same key.
function untilAnswered(send) {
  for (;;) {
    const answer = send();
    if (answer.status !== 429 && answer.status !== 503) return answer;
    putOff.add(1);
    sleep(Number(answer.headers['Retry-After']) || 1);
  }
}

export default function (run) {
  const number = exec.scenario.iterationInTest;
  const authorization = { Authorization: `Bearer ${tokenOf(number)}` };
  const asked = { ...authorization, 'Content-Type': 'application/json', 'Idempotency-Key': `${run}-${number}` };
  const tagged = (name, headers) => ({ headers, tags: { name } });

  const page = untilAnswered(() => http.get(`${API}/sales/${SALE}`, tagged('sale', {})));
  check(page, { 'the sale is shown': (answer) => answer.status === 200 });

  const ordering = () => http.post(`${API}/sales/${SALE}/orders`, '{"quantity":1}', tagged('order', asked));
  const answer = untilAnswered(ordering);
  const refused = answer.status === 409 && answer.json('code') === 'sold_out';
  check(answer, { 'sold, or sold out': () => answer.status === 201 || refused });
  if (refused) soldOut.add(1);
  if (answer.status !== 201) return;
  sold.add(1);

  const order = `${API}/orders/${answer.json('id')}`;
  const payment = untilAnswered(() => http.post(`${order}/pay`, null, tagged('pay', authorization)));
  if (check(payment, { 'paid': () => payment.status === 200 })) paid.add(1);
  const read = untilAnswered(() => http.get(order, tagged('read', authorization)));
  check(read, { 'the order is paid': () => read.status === 200 && read.json('state') === 'paid' });
}
