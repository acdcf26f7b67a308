type Environment = Readonly<Record<string, string | undefined>>;

/** Colour is for terminals, unless the user says otherwise; NO_COLOR goes before FORCE_COLOR, and an empty one says nothing. */
export function wantsColor({ NO_COLOR, FORCE_COLOR, TERM }: Environment, isTerminal: boolean): boolean {
  if (isSet(NO_COLOR)) return false;
  if (isSet(FORCE_COLOR)) return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false';
  return isTerminal && TERM !== 'dumb';
}

function isSet(value: string | undefined): value is string {
  return value !== undefined && value !== '';
}
