#!/usr/bin/env node
import '../dist/bin/mountlet.js';
