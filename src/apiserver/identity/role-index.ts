/**
 * The roles that users hold, from the roles and bindings in the store. It gets every change of them, before any client can see it,
 * and answers from memory: who asks for what is allowed to them is looked up by their name and groups, not searched for.
 */
import {
  type RoleBinding,
  type Subject,
  clusterRoleBindingKind,
  roleBindingKind,
} from '../../kube/kinds/access/role-binding.ts';
import {
  type ClusterRole,
  type PolicyRule,
  accessGroup,
  clusterRoleKind,
  roleKind,
} from '../../kube/kinds/access/role.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { objectKey, objectPrefix, parseStored } from '../model/stored-objects.ts';
import type { Change, Store } from '../store/store.ts';
import { type User, serviceAccountUserName } from './user.ts';

type Granting = Pick<RoleBinding, 'metadata' | 'subjects' | 'roleRef'>;

/** A role that somebody holds through a binding. */
interface HeldRole {
  readonly binding: Granting;
  /** By which of its subjects: the first that is the user or a group of theirs. */
  readonly subject: Subject;
  /** Undefined where there is no such role. */
  readonly rules: readonly PolicyRule[] | undefined;
}

/** Of a binding, for one of its subjects. */
interface Share {
  readonly binding: Granting;
  readonly position: number;
}

const rolePrefixes = [roleKind, clusterRoleKind].map((kind) => objectPrefix(kind));
const bindingPrefixes = [roleBindingKind, clusterRoleBindingKind].map((kind) => objectPrefix(kind));
const groupPrefix = `/registry/${accessGroup}/`;

export class RoleIndex {
  /** By the keys of the store, as are the bindings. */
  readonly #rules = new Map<string, readonly PolicyRule[]>();
  readonly #bindings = new Map<string, Granting>();
  /** By namespace, empty for the whole cluster, and subject. */
  readonly #held = new Map<string, Map<string, Share>>();

  changed({ key, type, value }: Pick<Change, 'key' | 'type' | 'value'>): void {
    // Most changes are of other objects.
    if (!key.startsWith(groupPrefix)) return;
    if (rolePrefixes.some((prefix) => key.startsWith(prefix))) {
      if (type === 'delete') this.#rules.delete(key);
      else this.#rules.set(key, (parseStored(value) as ClusterRole).rules ?? []);
    } else if (bindingPrefixes.some((prefix) => key.startsWith(prefix))) {
      this.#forget(key);
      if (type === 'put') this.#keep(key, parseStored(value) as RoleBinding);
    }
  }

  /** Everywhere and, if it is not empty, in the namespace. */
  *heldBy(user: User, namespace: string): Iterable<HeldRole> {
    const subjects = [userSubject(user.name), ...user.groups.map(groupSubject)];
    for (const home of namespace === '' ? [''] : ['', namespace]) {
      const first = new Map<Granting, number>();
      for (const subject of subjects) {
        for (const { binding, position } of this.#held.get(placeKey(home, subject))?.values() ?? []) {
          first.set(binding, Math.min(position, first.get(binding) ?? position));
        }
      }
      for (const [binding, position] of first) {
        const subject = binding.subjects?.[position];
        if (subject !== undefined) yield { binding, subject, rules: this.#rules.get(roleKeyOf(binding)) };
      }
    }
  }

  #keep(key: string, { metadata, subjects = [], roleRef }: RoleBinding): void {
    const binding = { metadata, subjects, roleRef };
    this.#bindings.set(key, binding);
    for (const [position, place] of placesOf(binding).entries()) {
      if (place === undefined) continue;
      const held = this.#held.get(place) ?? new Map<string, Share>();
      if (!held.has(key)) this.#held.set(place, held.set(key, { binding, position }));
    }
  }

  #forget(key: string): void {
    const binding = this.#bindings.get(key);
    if (binding === undefined) return;
    this.#bindings.delete(key);
    for (const place of placesOf(binding)) {
      const held = place === undefined ? undefined : this.#held.get(place);
      held?.delete(key);
      if (place !== undefined && held?.size === 0) this.#held.delete(place);
    }
  }
}

/** Keeps an index up to date until `unfollow` is called. */
export function followRoles(store: Store): { readonly roles: RoleIndex; readonly unfollow: () => void } {
  const roles = new RoleIndex();
  const unfollow = store.subscribe((changes) => {
    for (const change of changes) roles.changed(change);
  });
  const { items } = store.list({ prefix: groupPrefix, leavesOutDamaged: true });
  for (const { key, value } of items) roles.changed({ key, type: 'put', value });
  return { roles, unfollow };
}

/** `ClusterRoleBinding "b" of ClusterRole "r" to User "u"` */
export function describeHolding({ binding, subject }: Omit<HeldRole, 'rules'>): string {
  const { metadata, roleRef } = binding;
  const { name, namespace = '' } = metadata;
  const shown =
    namespace === '' ? `ClusterRoleBinding ${goQuote(name)}` : `RoleBinding ${goQuote(`${name}/${namespace}`)}`;
  const isAccount = subject.kind === 'ServiceAccount';
  const holder = isAccount ? `${subject.name}/${subject.namespace || namespace}` : subject.name;
  return `${shown} of ${roleRef.kind} ${goQuote(roleRef.name)} to ${subject.kind} ${goQuote(holder)}`;
}

/** What is missing where a binding names no role that there is. */
export function missingRole({ roleRef: { kind, name } }: Granting): string {
  return `${kind.toLowerCase()}.${accessGroup} ${goQuote(name)} not found`;
}

function roleKeyOf({ metadata, roleRef }: Granting): string {
  return roleRef.kind === 'Role'
    ? objectKey(roleKind, metadata.namespace ?? '', roleRef.name)
    : objectKey(clusterRoleKind, '', roleRef.name);
}

/** For each subject; undefined for one that is nobody. */
function placesOf({ metadata: { namespace = '' }, subjects = [] }: Granting): readonly (string | undefined)[] {
  return subjects.map((subject) => {
    const key = subjectKey(subject, namespace);
    return key === undefined ? undefined : placeKey(namespace, key);
  });
}

function placeKey(namespace: string, subject: string): string {
  return `${namespace}/${subject}`;
}

const userSubject = (name: string): string => `user:${name}`;
const groupSubject = (name: string): string => `group:${name}`;

/** An account without a namespace is one of the binding's; in the whole cluster there is none such. */
function subjectKey({ kind, name, namespace: given = '' }: Subject, home: string): string | undefined {
  if (kind === 'User') return userSubject(name);
  if (kind === 'Group') return groupSubject(name);
  const namespace = given || home;
  const isAccount = kind === 'ServiceAccount' && namespace !== '';
  return isAccount ? userSubject(serviceAccountUserName(namespace, name)) : undefined;
}
