// For every error code: what happened, and what to do now.
import type { Errors } from './types';

const errors: Errors = {} as Errors;

export default errors;
