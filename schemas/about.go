package schemas

// Keys of the metadata by which the NATS micro service of a model's tokenizers says what the
// model is.
const (
	AboutModel   = "model"   // its name in subjects
	AboutContext = "context" // the most tokens of a prompt and its answer
	AboutVocab   = "vocab"
	AboutFamily  = "family"
	AboutHash    = "model_hash"
	AboutClass   = "numeric_class"
	AboutWire    = "wire"
	AboutText    = "text"      // whether it has a tokenizer
	AboutChat    = "chat"      // whether it has a chat template
	AboutBOS     = "bos_token" // what begins a text, and what ends one, as tokenizer_config.json has it; empty: nothing
	AboutEOS     = "eos_token"
	AboutTask    = "task"
	AboutRunning = "requests_running" // that make tokens, as far as this replica knows
	AboutWaiting = "requests_waiting" // that wait for their turn
	AboutKVUsed  = "kv_used_ratio"    // share of the pages of keys and values that are used
	AboutReady   = "ready"            // whether a token can flow
	AboutSecret  = "secret"           // of which gateways make ids of their clients' keys: a server with users tells it to gateways alone
	AboutCreated = "created"          // since when this replica serves it, in seconds since 1970
)
