// What a merchant and other buyers do through the API, to bring a sale into the state that a test needs.
import { createHash, createHmac, randomInt, randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Challenge, Item, Order, Pass, Sale, SaleStats, Ticket } from '../../src/api/schema';
import { ADMIN_TOKEN, JWT_SECRET, type Server } from './server';

export interface Account {
  phone: string;
  name: string;
  password: string;
}

export interface Offer {
  title?: string;
  description?: string;
  picture?: string;
  units?: number;
  limit?: number;
  price?: string;
  regularPrice?: string;
  opensInSeconds?: number;
  closesInSeconds?: number;
  holdSeconds?: number;
  challenge?: 'pow' | 'captcha';
  waitingRoom?: boolean;
}

const PASSWORD = 'correct-horse-battery';
/** Pictures are drawn when nothing else needs the cores, so on a busy machine they take a while. */
const PICTURES_TIMEOUT_MS = 60_000;

/** A call of the API with this token. Throws the server's message when it refuses. */
export async function call<T>(server: Server, token: string, method: string, path: string, body?: unknown) {
  const { status, data } = await attempt<T>(server, token, method, path, body);
  if (status >= 400) throw new Error(`${method} ${path} was answered ${status}: ${JSON.stringify(data)}`);
  return data;
}

export async function attempt<T>(
  server: Server,
  token: string,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<{ status: number; data: T }> {
  const answer = await fetch(`${server.url}/api/v1${path}`, {
    method,
    headers: {
      ...(token ? { Authorization: `Bearer ${token}` } : {}),
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return { status: answer.status, data: (text ? JSON.parse(text) : undefined) as T };
}

export class Merchant {
  private readonly server: Server;
  private readonly token: string;

  constructor(server: Server, token = ADMIN_TOKEN) {
    this.server = server;
    this.token = token;
  }

  item(title: string, more: Pick<Offer, 'description' | 'picture' | 'regularPrice'> = {}): Promise<Item> {
    return this.call<Item>('POST', '/admin/items', {
      title,
      description: more.description ?? 'Made for a test.',
      regular_price: { amount: more.regularPrice ?? '2999.00', currency: 'CNY' },
      ...(more.picture ? { picture: more.picture } : {}),
    });
  }

  async draft(offer: Offer = {}): Promise<Sale> {
    const item = await this.item(offer.title ?? `Lamp ${randomUUID().slice(0, 8)}`, offer);
    const gate = {
      ...(offer.challenge ? { challenge: offer.challenge } : {}),
      ...(offer.waitingRoom ? { waiting_room: true } : {}),
    };
    return this.call<Sale>('POST', '/admin/sales', {
      item_id: item.id,
      price: { amount: offer.price ?? '1999.00', currency: 'CNY' },
      units: offer.units ?? 10,
      limit_per_buyer: offer.limit ?? 1,
      hold_seconds: offer.holdSeconds ?? 900,
      ...(offer.opensInSeconds === undefined ? {} : { opens_at: inSeconds(offer.opensInSeconds) }),
      ...(offer.closesInSeconds === undefined ? {} : { closes_at: inSeconds(offer.closesInSeconds) }),
      ...(Object.keys(gate).length ? { gate } : {}),
    });
  }

  async publish(offer: Offer = {}): Promise<Sale> {
    const draft = await this.draft(offer);
    const sale = await this.act(draft.id, 'publish');
    if (offer.challenge === 'captcha') await new Stranger(this.server).seesPictures(sale.id);
    return sale;
  }

  act(
    sale: string,
    verb: 'publish' | 'pause' | 'resume' | 'close' | 'restock',
    body?: unknown,
  ): Promise<Sale> {
    return this.call<Sale>('POST', `/admin/sales/${sale}/${verb}`, body);
  }

  sale(sale: string): Promise<Sale> {
    return this.call<Sale>('GET', `/sales/${sale}`);
  }

  stats(sale: string): Promise<SaleStats> {
    return this.call<SaleStats>('GET', `/admin/sales/${sale}/stats`);
  }

  private call<T>(method: string, path: string, body?: unknown): Promise<T> {
    return call<T>(this.server, this.token, method, path, body);
  }
}

/** A buyer who uses only the API. */
export class Stranger {
  readonly buyer = `stranger-${randomUUID()}`;
  private readonly token = shopToken(this.buyer);
  private readonly server: Server;

  constructor(server: Server) {
    this.server = server;
  }

  order(sale: string, quantity = 1): Promise<Order> {
    return this.orderWith(sale, quantity, {});
  }

  pay(order: string): Promise<Order> {
    return this.call<Order>('POST', `/orders/${order}/pay`);
  }

  cancel(order: string): Promise<Order> {
    return this.call<Order>('POST', `/orders/${order}/cancel`);
  }

  ticket(sale: string): Promise<Ticket> {
    return this.call<Ticket>('POST', `/sales/${sale}/tickets`);
  }

  lookAt(sale: string, ticket: string): Promise<Ticket> {
    return this.call<Ticket>('GET', `/sales/${sale}/tickets/${ticket}`);
  }

  joinWaitlist(sale: string, quantity = 1): Promise<{ position: number }> {
    return this.call('POST', `/sales/${sale}/waitlist`, { quantity });
  }

  /**
   * Waits until the server gives out pictures, always new ones. It draws them once a sale wants some; until
   * then it gives out proofs of work.
   */
  async seesPictures(sale: string): Promise<void> {
    const deadline = Date.now() + PICTURES_TIMEOUT_MS;
    for (const seen = new Set(); seen.size < 3; await delay(50)) {
      if (Date.now() > deadline) throw new Error(`The server has given out ${seen.size} pictures.`);
      const { image } = await this.call<Challenge>('POST', `/sales/${sale}/challenge`, {});
      if (image) seen.add(image);
    }
  }

  /** Solves a proof of work and orders. */
  async orderThroughGate(sale: string, ticket?: string): Promise<Order> {
    const challenge = await this.call<Challenge>('POST', `/sales/${sale}/challenge`, { kind: 'pow' });
    const pass = await this.call<Pass>('POST', `/sales/${sale}/pass`, {
      challenge: challenge.id,
      answer: solve(challenge.salt ?? '', challenge.difficulty ?? 0),
      ...(ticket ? { ticket } : {}),
    });
    return this.orderWith(sale, 1, { 'Penstock-Pass': pass.pass });
  }

  private async orderWith(sale: string, quantity: number, headers: Record<string, string>): Promise<Order> {
    const { status, data } = await attempt<Order>(
      this.server,
      this.token,
      'POST',
      `/sales/${sale}/orders`,
      { quantity },
      { 'Idempotency-Key': randomUUID(), ...headers },
    );
    if (status !== 201) throw new Error(`The order was answered ${status}: ${JSON.stringify(data)}`);
    return data;
  }

  private call<T>(method: string, path: string, body?: unknown): Promise<T> {
    return call<T>(this.server, this.token, method, path, body);
  }
}

function solve(salt: string, difficulty: number): string {
  for (let answer = 0; ; answer += 1) {
    const hash = createHash('sha256').update(`${salt}${answer}`).digest();
    if (Math.clz32(hash.readUInt32BE(0)) >= difficulty) return String(answer);
  }
}

/** Signs up a new user. */
export async function signUp(server: Server, name = 'Ada'): Promise<Account> {
  const account = { phone: newPhone(), name, password: PASSWORD };
  const { code } = await call<{ code: string }>(server, '', 'POST', '/otp', { phone: account.phone });
  await call(server, '', 'POST', '/accounts', { ...account, otp: code });
  return account;
}

/** An account with the admin role, for the console. */
export async function newAdmin(server: Server): Promise<Account> {
  const account = { phone: newPhone(), name: 'Grace', password: PASSWORD };
  const words = ['admin', 'create', '--phone', account.phone, '--name', account.name];
  const made = await server.run([...words, '--password-stdin', '--data', server.data], `${PASSWORD}\n`);
  if (made.code !== 0) throw new Error(`penstock admin create failed: ${made.stderr}`);
  return account;
}

export function newPhone(): string {
  return `+86139${String(randomInt(100_000_000)).padStart(8, '0')}`;
}

export function inSeconds(seconds: number): string {
  return new Date(Date.now() + seconds * 1000).toISOString();
}

/** A token as a shop with its own users signs it. */
function shopToken(buyer: string): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const expires = Math.floor(Date.now() / 1000) + 86_400;
  const body = `${part({ alg: 'HS256', typ: 'JWT' })}.${part({ sub: buyer, exp: expires })}`;
  return `${body}.${createHmac('sha256', JWT_SECRET).update(body).digest('base64url')}`;
}
