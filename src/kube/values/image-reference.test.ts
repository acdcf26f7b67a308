import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { ImageReferenceError, parseImageReference } from './image-reference.ts';

const sha = 'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
const hex = sha.slice(7);
const images: [image: string, repository: string, tag: string, digest?: string][] = [
  ['root', 'docker.io/library/root', 'latest'],
  ['root:tag', 'docker.io/library/root', 'tag'],
  [`root@${sha}`, 'docker.io/library/root', '', sha],
  ['user/repo', 'docker.io/user/repo', 'latest'],
  ['user/repo:tag', 'docker.io/user/repo', 'tag'],
  [`user/repo@${sha}`, 'docker.io/user/repo', '', sha],
  ['url:5000/repo', 'url:5000/repo', 'latest'],
  ['url:5000/repo:tag', 'url:5000/repo', 'tag'],
  [`url:5000/repo@${sha}`, 'url:5000/repo', '', sha],
  [`url:5000/repo:latest@${sha}`, 'url:5000/repo', 'latest', sha],
  ['docker.io/nginx', 'docker.io/library/nginx', 'latest'],
  ['index.docker.io/nginx', 'docker.io/library/nginx', 'latest'],
  ['index.docker.io/a/b:1', 'docker.io/a/b', '1'],
  ['localhost/a', 'localhost/a', 'latest'],
  ['Registry/a', 'Registry/a', 'latest'],
  ['registry.k8s.io/pause:3.9', 'registry.k8s.io/pause', '3.9'],
  ['[2001:db8::1]:5000/a', '[2001:db8::1]:5000/a', 'latest'],
  ['a/b/c-d__e.f:v1.0-rc_1', 'docker.io/a/b/c-d__e.f', 'v1.0-rc_1'],
];
for (const [image, repository, tag, digest = ''] of images) {
  test(`${image} is ${repository}`, () => {
    assert.deepEqual(parseImageReference(image), { repository, tag, digest });
  });
}

const refused: [image: string, problem: string][] = [
  ['', 'invalid reference format'],
  ['ROOT', 'invalid reference format: repository name (library/ROOT) must be lowercase'],
  ['http://root', 'invalid reference format'],
  [hex, `invalid repository name (${hex}), cannot specify 64-byte hexadecimal strings`],
  ['a b', 'invalid reference format'],
  ['a:', 'invalid reference format'],
  ['a@', 'invalid reference format'],
  ['a/', 'invalid reference format'],
  ['a//b', 'invalid reference format'],
  ['a___b', 'invalid reference format'],
  ['a\n', 'invalid reference format'],
  [`a:${'t'.repeat(129)}`, 'invalid reference format'],
  [`a@sha256:${hex.slice(2)}`, 'invalid checksum digest length'],
  [`a@sha256:${hex.toUpperCase()}`, 'invalid checksum digest format'],
  [`a@md5:${hex}`, 'unsupported digest algorithm'],
  [`a@SHA256:${hex}`, 'invalid reference format: repository name (library/a@SHA256) must be lowercase'],
  [`a:1@SHA256:${hex}`, 'invalid checksum digest format'],
  ['a'.repeat(256), 'repository name must not be more than 255 characters'],
];
for (const [image, problem] of refused) {
  test(`${JSON.stringify(image.slice(0, 40))} is not an image: ${problem}`, () => {
    assert.throws(() => parseImageReference(image), new ImageReferenceError(image, problem));
  });
}

test('the kubelet says which image it could not parse', () => {
  assert.throws(() => parseImageReference('http://root'), {
    message: `couldn't parse image name "http://root": invalid reference format`,
  });
});

test('a parsed image parses again to the same', () => {
  const image = fc
    .tuple(
      fc.constantFrom('', 'docker.io/', 'quay.io/', 'localhost:5000/', 'team/'),
      fc.stringMatching(/^[a-z0-9]{1,5}(-[a-z0-9]{1,5})?$/),
      fc.constantFrom('', ':1.2', `@${sha}`, `:x@${sha}`),
    )
    .map((parts) => parts.join(''));
  fc.assert(
    fc.property(image, (text) => {
      const first = parseImageReference(text);
      const written = first.repository + (first.tag && `:${first.tag}`) + (first.digest && `@${first.digest}`);
      assert.deepEqual(parseImageReference(written), first);
    }),
  );
});

test('a hostile image name is refused in a moment', () => {
  for (const text of [
    `${'a-'.repeat(50_000)}!`,
    `${'a.'.repeat(50_000)}!`,
    `${'a/'.repeat(50_000)}!`,
    '_'.repeat(99_999),
  ]) {
    assert.throws(() => parseImageReference(text), ImageReferenceError);
  }
});
