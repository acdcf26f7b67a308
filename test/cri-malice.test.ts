/** A container of containerd that means harm. */
import './with-containerd.ts';
import './up-malice.test.ts';
