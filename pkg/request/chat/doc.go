// Package chat writes conversations as a model was taught to read them: it finds
// the model's chat templates, gives them what transformers' apply_chat_template
// gives them, and keeps apart what the template wrote and what a producer sent.
package chat
