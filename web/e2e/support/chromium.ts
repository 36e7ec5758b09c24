// Finds Debian's Chromium, installs it if it is missing, and starts it.
import { execFileSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium, type Browser } from 'playwright-core';

const NAMES = ['chromium', 'chromium-browser'];

function isRoot(): boolean {
  return process.getuid?.() === 0;
}

function inPath(): string | undefined {
  const folders = ['/usr/bin', ...(process.env['PATH'] ?? '').split(delimiter)];
  return folders.flatMap((folder) => NAMES.map((name) => join(folder, name))).find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Installs a package of Debian; only root can. */
export function install(name: string): void {
  const apt = (...words: string[]) =>
    execFileSync('apt-get', words, {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    });
  apt('update', '-qq');
  apt('install', '-y', '-qq', '--no-install-recommends', name);
}

export function findChromium(): string {
  const found = inPath();
  if (found) return found;
  if (isRoot()) install('chromium');
  const installed = inPath();
  if (!installed) throw new Error('The browser tests need Chromium: apt-get install chromium');
  return installed;
}

/** `variables` are added to its environment. */
export async function startChromium(variables: Record<string, string> = {}): Promise<Browser> {
  return chromium.launch({
    executablePath: findChromium(),
    env: { ...(process.env as Record<string, string>), ...variables },
    // Chromium's sandbox doesn't work for root.
    args: ['--disable-gpu', '--disable-dev-shm-usage', ...(isRoot() ? ['--no-sandbox'] : [])],
  });
}
