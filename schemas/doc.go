// Package schemas holds what services agree on: the protobuf messages (in
// switchyard/v1), subjects, streams and header names. It does no I/O.
package schemas

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

//go:generate go run github.com/bufbuild/buf/cmd/buf@v1.70.0 generate

// Version is the version of the messages; a message of another is refused.
const Version = 2

// Sampling counts what an attention replica knows of a request's sampling: 1: presence and
// frequency penalty, min_p, min_tokens, logit_bias; 2: grammars; 3: calls of tools.
const Sampling = 3

// RecordFormat marks the records of token logs and names their form; readers
// pass over whatever lacks it. ("SYL1")
const RecordFormat = 0x314c5953

// HeaderAsk says that a prompt in the queue came by ask, and in which form.
const HeaderAsk = "Switchyard-Ask"

// HeaderTold has the subject of what services tell each other; it is their only header.
const HeaderTold = "Switchyard-Told"

// What gateways say of a request, in headers that count where they have the gateways' secret.
const (
	// HeaderSeal has a Seal of the header that is to count: of a prompt its traceparent, of what is only
	// tokenized HeaderTenant.
	HeaderSeal = "Switchyard-Seal"
	// HeaderTenant is whose prompt is tokenized.
	HeaderTenant = "Switchyard-Tenant"
)

// Seal says that who knows the secret of gateways has written a header.
func Seal(secret, header, value string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(header + ":" + value)) // a hash takes everything
	return hex.EncodeToString(mac.Sum(nil))
}

// Headers that outsiders see.
const (
	// HeaderReplyTo overrides reply_to in the body of a prompt.
	HeaderReplyTo = "Switchyard-Reply-To"
	// HeaderIndex is a chunk's index in the text encoding.
	HeaderIndex = "Switchyard-Index"
	// HeaderRefused tells the refusal of a replay, which says nothing of the request
	// itself, from that of the request.
	HeaderRefused = "Switchyard-Refused"
	// HeaderCount asks a tokenizer for how many ids a prompt has, and not for them.
	HeaderCount = "Switchyard-Count"
	// HeaderContentType tells protobuf from JSON and text.
	HeaderContentType = "Content-Type"
	// ContentProtobuf is the content type of protobuf bodies.
	ContentProtobuf = "application/protobuf"
	// ContentJSON is the content type of JSON bodies.
	ContentJSON = "application/json"
)
