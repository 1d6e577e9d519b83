// Package cloud keeps tables in the object stores of clouds: S3 and those that
// speak its dialects, Google Cloud Storage and Azure's blobs.
//
// gocloud.dev/blob opens the bucket: it knows the parameters of the URL and each
// cloud's usual chain of credentials. The calls go to the vendor's own client, since
// a table needs what the portable one lacks: puts and completions under an If-Match,
// the version that a put made, names as they are, and one try per call, so that what
// became of a lost answer is known here and not hidden by a library's retry.
//
// Every put carries a token of its own in the object's metadata. When the answer to
// a put is lost, the token in the store says whose put took effect: see Driver.Put.
package cloud
