// Package classics has the schemes by which people have locked through Redis, each as
// it is usually written, with a test that breaks it and shows that golocker's lock is
// not broken by the same. It is the code of docs/history.md. Nothing here is for use.
package classics
