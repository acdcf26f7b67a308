/** Questions about who somebody is: the owner of a token, or the one who asks. Answered, never stored. */
import { objectFields } from './metadata.ts';
import { boolean, list, map, object, required, string } from './schema.ts';
import type { Of } from './schema.ts';

const userInfo = object({ username: string, uid: string, groups: list(string), extra: map(list(string)) });
export interface UserInfo extends Of<typeof userInfo> {}

export const tokenReview = object({
  ...objectFields,
  spec: required(object({ token: string, audiences: list(string) })),
  status: object({ authenticated: boolean, user: userInfo, audiences: list(string), error: string }),
});
export interface TokenReview extends Of<typeof tokenReview> {}

export const selfSubjectReview = object({ ...objectFields, status: object({ userInfo }) });
export interface SelfSubjectReview extends Of<typeof selfSubjectReview> {}
