// Reads WARC files with warcio and prints a line of JSON for each record: what
// the tests compare with what they have read themselves.
//
//	node records.mjs FILE …
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { basename } from "node:path";
import { WARCParser } from "warcio";

async function sum(chunks) {
  const hash = createHash("sha256");
  let length = 0;
  for await (const chunk of chunks) {
    hash.update(chunk);
    length += chunk.length;
  }
  return { length, sha256: hash.digest("hex") };
}

for (const path of process.argv.slice(2)) {
  // Once as blocks, and once more as HTTP messages: warcio reads a record only
  // in one way.
  const blocks = [];
  for await (const record of new WARCParser(createReadStream(path), { parseHttp: false })) {
    blocks.push(await sum(record.reader));
  }
  let n = 0;
  for await (const record of new WARCParser(createReadStream(path))) {
    const http = record.httpHeaders;
    // The payload of a record is what remains when the transfer-coding is
    // removed; warcio would remove the content-coding too.
    http?.headers.delete("Content-Encoding");
    const line = {
      file: basename(path),
      version: record.warcHeaders.protocol ?? record.warcHeaders.statusline,
      type: record.warcType,
      id: record.warcHeader("WARC-Record-ID"),
      uri: record.warcTargetURI ?? "",
      date: record.warcDate,
      contentLength: record.warcContentLength,
      block: blocks[n++],
      start: http ? http.statusline : "",
      payload: await sum(record),
    };
    console.log(JSON.stringify(line));
  }
  if (n !== blocks.length) {
    throw new Error(`${path}: ${n} records at one time, ${blocks.length} at another`);
  }
}
