// The shape of the words: English is the model, and a text missing in another language does not compile.
import type { ErrorCode } from '../api/client';
import type en from './en';

/** A type with other texts. */
export type Words<T> = {
  [K in keyof T]: T[K] extends string
    ? string
    : T[K] extends (...args: infer A) => string
      ? (...args: A) => string
      : Words<T[K]>;
};

export type Common = Words<(typeof en)['common']>;
/** For every code: what happened, and what to do now. */
export type Errors = Record<ErrorCode, { says: string; todo: string }>;
