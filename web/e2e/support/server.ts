// The real binary as a child process, in a temporary folder and on a free port.
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export const REPOSITORY = fileURLToPath(new URL('../../../', import.meta.url));
export const ADMIN_TOKEN = 'admin-token-of-browser-tests';
export const JWT_SECRET = 'the-secret-that-browser-tests-sign-with';

/** A debug build on a busy machine may be slow; this limit ends a server that never gets ready. */
const READY_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 30_000;
const LOG_LINES = 400;

export interface ServerOptions {
  /** Variables such as `PENSTOCK_GATE__TURN_SECONDS`. */
  settings?: Record<string, string | number | boolean>;
  /** Further arguments of `penstock serve`. */
  flags?: string[];
  /** Without a token, a demo makes its own. */
  adminToken?: string | undefined;
}

export interface Finished {
  code: number;
  stdout: string;
  stderr: string;
}

export class Server {
  /** Such as `http://127.0.0.1:41234`. */
  url = '';
  /** Its output, before and after it was ready. */
  readonly printed: string[] = [];
  private readonly log: string[] = [];
  private readonly child: ChildProcess;
  private readonly ended: Promise<void>;

  private readonly folder: string;
  private readonly variables: NodeJS.ProcessEnv;

  private constructor(folder: string, variables: NodeJS.ProcessEnv, flags: string[]) {
    this.folder = folder;
    this.variables = variables;
    const words = ['serve', '--listen', '127.0.0.1:0', '--data', this.data, ...flags];
    this.child = spawn(binary(), words, { env: variables, stdio: ['ignore', 'pipe', 'pipe'] });
    lines(this.child.stdout, this.printed);
    lines(this.child.stderr, this.log);
    this.ended = new Promise((done) => {
      this.child.once('exit', () => done());
      this.child.once('error', (error) => {
        this.log.push(String(error));
        done();
      });
    });
  }

  static async start(options: ServerOptions = {}): Promise<Server> {
    const folder = await mkdtemp(join(tmpdir(), 'penstock-e2e-'));
    const server = new Server(folder, variables(options), options.flags ?? []);
    try {
      await server.ready();
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
  }

  get data(): string {
    return join(this.folder, 'data');
  }

  /** The newest lines of its log. */
  get story(): string {
    return this.log.slice(-LOG_LINES).join('\n');
  }

  /** Another command of the binary, with this server's settings. */
  run(words: string[], input = ''): Promise<Finished> {
    return this.begin(words, input).finished;
  }

  /** The same for a command that keeps running. */
  begin(words: string[], input = ''): { finished: Promise<Finished>; end: () => void } {
    let child: ChildProcess | undefined;
    const finished = new Promise<Finished>((done) => {
      child = execFile(
        binary(),
        words,
        { env: this.variables, maxBuffer: 64 * 1024 * 1024 },
        (error, stdout, stderr) => {
          done({ code: error ? Number(error.code ?? 1) : 0, stdout, stderr });
        },
      );
      child.stdin?.end(input);
    });
    return { finished, end: () => child?.kill('SIGTERM') };
  }

  /** Ends the process and removes its folder. */
  async stop(): Promise<void> {
    const force = setTimeout(() => this.child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    this.child.kill('SIGTERM');
    await this.ended;
    clearTimeout(force);
    await rm(this.folder, { recursive: true, force: true });
  }

  private async ready(): Promise<void> {
    const deadline = Date.now() + READY_TIMEOUT_MS;
    let over = false;
    void this.ended.then(() => (over = true));
    while (Date.now() < deadline && !over) {
      const line = this.printed.find((text) => text.startsWith('penstock ready on '));
      if (line) {
        this.url = line.replace('penstock ready on ', '').trim();
        return;
      }
      await new Promise((done) => setTimeout(done, 20));
    }
    throw new Error(`penstock serve did not get ready.\n${this.printed.join('\n')}\n${this.story}`);
  }
}

function variables(options: ServerOptions): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('PENSTOCK_'));
  const token = 'adminToken' in options ? options.adminToken : ADMIN_TOKEN;
  return {
    ...Object.fromEntries(inherited),
    ...(token ? { PENSTOCK_ADMIN_TOKEN: token } : {}),
    PENSTOCK_IDENTITY__JWT__SECRET: JWT_SECRET,
    PENSTOCK_IDENTITY__CODES_IN_ANSWERS: 'true',
    PENSTOCK_IDENTITY__PASSWORD_CORE_PERCENT: '100',
    // Small pictures and few of them: a run starts many servers.
    PENSTOCK_GATE__CAPTCHA_POOL: '20',
    PENSTOCK_LEDGER__LOG_MEBIBYTES: '4',
    PENSTOCK_HTTP__DRAIN_SECONDS: '1',
    ...Object.fromEntries(
      Object.entries(options.settings ?? {}).map(([name, value]) => [name, String(value)]),
    ),
  };
}

/** The one from `PENSTOCK_BIN`, or the debug build. */
function binary(): string {
  const file = resolve(REPOSITORY, process.env['PENSTOCK_BIN'] ?? 'target/debug/penstock');
  if (!existsSync(file)) throw new Error(`There is no ${file}: cargo build --bin penstock`);
  return file;
}

/** Collects what a stream says, line by line. */
function lines(stream: NodeJS.ReadableStream | null, into: string[]): void {
  let rest = '';
  stream?.setEncoding('utf8').on('data', (text: string) => {
    const parts = (rest + text).split('\n');
    rest = parts.pop() ?? '';
    into.push(...parts);
  });
}
