package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

const (
	// hashWhole is up to how many bytes of weights a hash covers every byte.
	hashWhole = 64 << 20
	// Above it, hashBlocks blocks of hashBlock bytes a file are sampled, so
	// that opening a large model does not read it.
	hashBlocks, hashBlock = 256, 4096
)

// hash identifies config and weights: config.json, then each file's name, size,
// header and bytes (all or sampled, by the total size). The path, and whether
// files are mapped or embedded, do not matter.
func (c *checkpoint) hash(config []byte) string {
	h := sha256.New()
	hashPart(h, config)
	var total int64
	for _, f := range c.files {
		total += f.Size()
	}
	for _, f := range c.files {
		hashPart(h, []byte(f.name))
		hashPart(h, f.Header())
		hashPart(h, binary.LittleEndian.AppendUint64(nil, uint64(f.Size())))
		if body := f.Body(); total <= hashWhole {
			h.Write(body)
		} else {
			sample(h, body)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// hashPart writes a part with its length, so that parts cannot run together.
func hashPart(h hash.Hash, part []byte) {
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(part))))
	h.Write(part)
}

// sample writes evenly spaced blocks, the first and the last among them.
func sample(h hash.Hash, body []byte) {
	if len(body) <= hashBlocks*hashBlock {
		h.Write(body)
		return
	}
	last := len(body) - hashBlock
	for i := range hashBlocks {
		at := int(int64(last) * int64(i) / (hashBlocks - 1))
		h.Write(body[at : at+hashBlock])
	}
}
