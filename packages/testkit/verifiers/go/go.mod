module millrace.example/verifier

go 1.19
