/** Which form of an answer a client asked for, by its Accept header and its other hints. */
import { StatusError } from '../status.ts';
import { NotAcceptableError, isPretty, negotiateAnswer, objectConversions, yamlType } from '../wire/media-types.ts';
import type { AnswerForm, Conversion } from '../wire/media-types.ts';

export interface Representation {
  readonly format: 'json' | 'yaml';
  readonly as: 'object' | 'table' | 'metadata';
  /** Of the group meta.k8s.io, for tables and metadata. */
  readonly version: string;
  readonly isPretty: boolean;
}

export const plainJson: Representation = { format: 'json', as: 'object', version: 'v1', isPretty: false };

interface Hints {
  readonly accept: string | undefined;
  readonly userAgent: string | undefined;
  readonly pretty: string | null;
}

export function negotiate({ accept, userAgent, pretty }: Hints): Representation {
  const form = acceptedForm(accept, objectConversions);
  const { conversion } = form;
  return {
    format: form.type === yamlType ? 'yaml' : 'json',
    as: conversion === undefined ? 'object' : conversion.kind === 'Table' ? 'table' : 'metadata',
    version: conversion?.version ?? 'v1',
    isPretty: form.pretty || isPretty(pretty, userAgent),
  };
}

export function acceptedForm(accept: string | undefined, conversions: readonly Conversion[]): AnswerForm {
  try {
    return negotiateAnswer(accept, conversions);
  } catch (error) {
    if (error instanceof NotAcceptableError) throw new StatusError(406, error.reason, error.message);
    throw error;
  }
}
