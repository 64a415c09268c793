#!/usr/bin/env node
// Stands apart from the build, so that the command can be linked before there is one.
import "../dist/main.js";
