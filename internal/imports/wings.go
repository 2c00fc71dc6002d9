package imports

// wings are the folders of pkg in their one order, each with why it needs none of those behind
// it: a wing imports those before it alone, so that none is in a cycle with another.
var wings = []struct{ name, reason string }{
	{"policy", "a decision is made of what it is handed: policies are asked with worlds, plans and samples, and never look for them"},
	{"compute", "what a model is and computes is the same however its rows travel, and whoever asks for them"},
	{"transport", "messages are carried, and checked against what their model can have, whatever replicas live and plan"},
	{"control", "members, leases and plans are kept over connections alone, in whichever process"},
	{"process", "what the services of a process share is there before any request is"},
	{"request", "requests are served the same, whatever is rented for them"},
	{"serverless", ""},
}

// wingRules returns the rules of the order.
func wingRules() (rules []Rule) {
	for i, w := range wings[:len(wings)-1] {
		r := Rule{Of: []string{"pkg/" + w.name + "/..."}, Reason: w.reason, Bad: [2]string{"pkg/" + w.name, "pkg/" + wings[i+1].name}}
		for _, behind := range wings[i+1:] {
			r.Never = append(r.Never, "pkg/"+behind.name+"/...")
		}
		rules = append(rules, r)
	}
	return rules
}
