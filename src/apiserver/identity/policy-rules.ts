/** Whether a rule of a role allows what a request asks for. */
import type { PolicyRule } from '../../kube/kinds/access/role.ts';
import { pathMatches } from '../../kube/kinds/access/rule-coverage.ts';
import type { RequestAttributes, ResourceAttributes } from './user.ts';

export function ruleAllows(rule: PolicyRule, request: RequestAttributes): boolean {
  return request.kind === 'path'
    ? includesOrAll(rule.verbs, request.verb) &&
        (rule.nonResourceURLs ?? []).some((pattern) => pathMatches(pattern, request.path))
    : resourceRuleAllows(rule, request);
}

/** `pods` does not allow `pods/log`; `*\/status` is that subresource of any resource. */
export function resourceRuleAllows(
  { verbs, apiGroups = [], resources = [], resourceNames = [] }: PolicyRule,
  { verb, group, resource, subresource, name }: ResourceAttributes,
): boolean {
  const full = subresource === '' ? resource : `${resource}/${subresource}`;
  return (
    includesOrAll(verbs, verb) &&
    includesOrAll(apiGroups, group) &&
    (includesOrAll(resources, full) || (subresource !== '' && resources.includes(`*/${subresource}`))) &&
    (resourceNames.length === 0 || resourceNames.includes(name))
  );
}

function includesOrAll(list: readonly string[], item: string): boolean {
  return list.includes('*') || list.includes(item);
}
