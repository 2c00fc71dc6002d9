// Package credentials makes and keeps the keys, credentials, certificates and server
// settings of a deployment whose users have the rights of pkg/transport/rights.
//
// A folder has, all readable by its owner alone:
//
//	ca.pem                what clients check the server's certificate with
//	creds/USER.creds      what a user logs in with
//	nats/context/         a NATS context for each user (XDG_CONFIG_HOME=FOLDER)
//	server/               settings and certificate of the server, with the accounts
//	scope.json            the models and tenants that the rights are of
//	stores/  keys/        the operator's: JWTs and keys as nsc keeps them, and the
//	                      authority's key; no server and no service needs them
//
// Rights are in the account's JWT, a scoped signing key for each role, and a user's
// JWT only names its role's key: a client sends its JWT in one line of at most 4 KiB,
// and rights change without new credentials.
package credentials
