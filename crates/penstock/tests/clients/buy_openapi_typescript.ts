// Buys, pays and lists with the types that openapi-typescript made.
// Arguments: the server's address, a sale, a buyer's token, the admin token.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import createClient from 'openapi-fetch';
import type { AdminOrder, Difference, Order, paths, Problem, Sale } from './schema.js';

const [baseUrl = '', id = '', buyerToken = '', adminToken = ''] = process.argv.slice(2);
const client = (token: string) =>
  createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });
const buyer = client(buyerToken);
const admin = client(adminToken);
const params = { path: { id } };
const place = () =>
  buyer.POST('/api/v1/sales/{id}/orders', {
    params: { ...params, header: { 'Idempotency-Key': randomUUID() } },
    body: { quantity: 1 },
  });
function there<T>(answer: { data?: T; error?: unknown }): T {
  assert.ok(answer.data, JSON.stringify(answer.error));
  return answer.data;
}

const shown: Sale[] = there(await buyer.GET('/api/v1/sales')).data;
assert.ok(shown.some((sale) => sale.id === id));
const sale = there(await buyer.GET('/api/v1/sales/{id}', { params }));
assert.equal(sale.state, 'open' satisfies typeof sale.state);
assert.ok(Date.parse(sale.server_time));

const order = there(await place());
assert.equal(order.state, 'held' satisfies Order['state']);
const paid = there(await buyer.POST('/api/v1/orders/{id}/pay', { params: { path: { id: order.id } } }));
assert.equal(paid.state, 'paid' satisfies Order['state']);
const mine: Order[] = there(await buyer.GET('/api/v1/orders')).data;
assert.deepEqual(mine.map((one) => one.id), [order.id]);
// A buyer's order does not have the merchant's type.
// @ts-expect-error
mine.map((one) => one.buyer);

const refused: Problem | undefined = (await place()).error;
assert.equal(refused?.code, 'limit_reached' satisfies Problem['code']);

const all: AdminOrder[] = there(await admin.GET('/api/v1/admin/orders', { params: { query: { sale: id } } })).data;
assert.ok(all.every((one) => one.buyer));
// The kind decides which fields there are.
const oversold = (found: Difference) => (found.kind === 'oversold' ? found.units : 0);
const report = there(await admin.GET('/api/v1/admin/audit'));
assert.deepEqual([report.ok, report.differences.map(oversold)], [true, []]);
console.log(order.id);
