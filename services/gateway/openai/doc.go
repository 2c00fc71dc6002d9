// Package openai reads bodies of OpenAI's chats and completions, and writes their answers. It
// knows neither HTTP nor NATS: a body becomes an Ask with prompts for the services, and chunks
// of their answers become the parts of a reply.
//
// What would change an answer and is not served is refused with its field's name; what changes
// nothing, such as user or metadata, is ignored.
package openai
