// Buys, pays and lists with the TypeScript client that openapi-generator made.
// Arguments: the server's address, a sale, a buyer's token, the admin token.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { AdminApi, Configuration, OrdersApi, ResponseError, SalesApi } from './shop/index.js';
import type { AdminOrder, Order, Problem, Sale } from './shop/index.js';

const [basePath = '', id = '', buyerToken = '', adminToken = ''] = process.argv.slice(2);
const buyer = new Configuration({ basePath, accessToken: buyerToken });
const merchant = new AdminApi(new Configuration({ basePath, accessToken: adminToken }));
const sales = new SalesApi(buyer);
const orders = new OrdersApi(buyer);
const place = () =>
  orders.placeOrder({ id, idempotencyKey: randomUUID(), orderRequest: { quantity: 1 } });

const shown: Sale[] = (await sales.listSales({ limit: 10 })).data;
assert.ok(shown.some((sale) => sale.id === id));
const sale = await sales.getSale({ id });
assert.equal(sale.state, 'open');
assert.ok(sale.serverTime instanceof Date);

const order = await place();
assert.equal(order.state, 'held');
assert.deepEqual(order.total, sale.price);
assert.equal((await orders.payOrder({ id: order.id })).state, 'paid');
const mine: Order[] = (await orders.listOrders({})).data;
assert.deepEqual(mine.map((one) => one.id), [order.id]);

const refused = await place().then(
  () => assert.fail('a second unit was sold to the same buyer'),
  (error: unknown) => error,
);
assert.ok(refused instanceof ResponseError);
const problem = (await refused.response.json()) as Problem;
assert.equal(problem.code, 'limit_reached');

const all: AdminOrder[] = (await merchant.listAllOrders({ sale: id })).data;
assert.ok(all.every((one) => one.buyer));
assert.ok((await merchant.audit()).ok);
console.log(order.id);
