#!/usr/bin/env node
"use strict";

const { serve } = require("./delaybridge-plugin");

serve(require("./sink"));
