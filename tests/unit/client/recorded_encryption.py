"""Entries that Apache's Python client 3.13 encrypted for one key, as a broker stored them.

The key was made for this recording and protects nothing.
"""

from __future__ import annotations

import base64
from typing import Final

__all__ = ["BATCH", "PRIVATE_KEY", "SINGLE"]

PRIVATE_KEY: Final = b"""\
-----BEGIN PRIVATE KEY-----
MIIEvAIBADANBgkqhkiG9w0BAQEFAASCBKYwggSiAgEAAoIBAQDUPlJuFd1jVllb
Hid+aLzbA+lMYCcdB/SDTygZ1cVkJ7YHuCCd0k7YkYg0x3OE1erSdAj3Akg6lOWE
YhIw1hrDx98/yCzxVs3MUD6v028jSFrGpWjvgakHOqnnjKGwJl7PQTZgQiPMNKna
7aSfZrEktpZXCrBxuKHv9LZGSeCJ5/ybbi8hbhZjNYuLDMhH5Svh61KQKizcQ8IM
w96dKoShLBR5OxlC/ZUUeApA4t1itghoxhP8sYm8A35efvcnBEbhCFZw1QBHav+h
uZ0bH+KYNdYmgF+fQMhfQ7bWJtju4s4tQLi/37jgfYYM6IQBIirdVqBhExW2uxmf
LQJQ7TDVAgMBAAECggEAFM77AB3Qdt2vfnGOSxeHGh/svrCxbpuDjpLzQ9X23gY1
egjeDCsWanQzB7dDegZxDDeuubm1dCZ5+ojIImKZycN6sOmpKL/E07jmut1LYm9E
rk1N5I49Q98UBLmy3OH+KwRIcDDvCovIci7lx3Az6OOmPLVorbv9oHJJCcrsPG9E
2RpRL2SqYB92YqwmX1Vv34E3IkP2rtR3eUxEqM311B0n+TY1ux7vq3SL7KMnN2Nu
pHr90nwfrCfwagIcPF3ZZ7ATz8ECu7vHryv4H4y3d51KOMngDACQHZvhgmzoRzUw
4OT/ULKfHkPtnacIuzv6VyR8wZIQ7GBKHiHcsz5pNwKBgQD5hbRas8mmY1xgtjhb
OoIbCXH5DmUw5Se7F3NMIPoPO8y8yjtvoAuxaNOe3goeQbwjWEPYrkoTEvNiQnKL
2yQYiXXAOIGov61PomtRyC2p4UXZzgDzQKjQGJ3r44hAPgZWS9xdorZncJj8PMoG
cVv4Kv0vPeqmz7luD/sYOkDd0wKBgQDZwN3jQuCa2r3Rr7YLVtcZTXCqmmRpfRLs
Swe73dq7bZzKxyPRaPirwHqvbgX8UTgw98oA+1Wu+oQ3TNi818uRUT0EYBRa/J9U
riHxF4oXrhD0NfFFl3nzp8WWGrhm/Jtk4lVQorIwO50QzNSB8QqUqiH8N5uzqCmV
qTqXP3CFtwKBgEy/oW/cqQOywDFHGyKEZoxmZVYT5XAarBPR7LbX1dJltF3FXm7B
LZeOBLly1m3kDjhY59V4FnSzeYUZpx35c6rQbRWIy+jZvDcoYBYxmkoMbm3F/WjU
1JfdWoW54KjR6yUUBF4QtEYwzf2XvRQqPf2hS2sCgnB4qDKAW91h3Z3dAoGAKLY7
hgrx7WHqTXL5qUMSMkPdRbhZ/7MHv7ADgSdohtRmlS8ITlW+8HWrOnNqoRMaW2Vo
mihji7SA1coDV8NM5x12OAQyqhRDQdTQub+57NV5i/8t3eIFRf3fHkJeqbqe3wzG
AK56fDQZGJQDQ0wqu0LX2c0Xyk4tgDLEppSQ2B8CgYA0IeuVJkY1m53N+anuNTA3
KGH3m6dn3Lu+8yXbRD0EgZD95PdGL/ztcoMaoWD2h9Im/KwtL10vw3lXzdAaqIee
pjvPzt63/qqclMGZsQilDidjRXw0kmV1NxeRB8tSfyygcbUqaPywPAKg5J3zUeXQ
EBuqzJ3IbCneSWYTRFeHBA==
-----END PRIVATE KEY-----
"""

SINGLE: Final = base64.b64decode(
    "DgEXKXZbAAABQAoRdmVsYS0zLTA1YjVmODgxMTQQABjYsevmnzQiBgoBaRIBMGqLAgoGbXkta2V5EoACoM9F8T1kPXXGhKBb/Rxb"
    "UmvfunENoiEZr74t/ygbCRajtgk2nkSl5efJ6RDVI6Oa1kQaeCnWZa+jW1RHgFx7VLEjeW1C/ThskKYKnILbIjpQVgvztwG4wTb/"
    "wfzNavv20sBsaD6kyL68VP6fr8p3yII0k/ikTu+fDlQE5ayvIIhZX0bhej9O/5elJyyFjhLVzexG1f9YDxFEVCCx+y5Rm+o60jnh"
    "fbCF/HWUITQ5lw5YQuifLojaY7/z2rwcMmN903VsIk/fBuE3j5vsV1bOmx7gf2vTADO57tWq6BY08HdT8mJSU2bQzftUA4BDZpwl"
    "5aNnIdqMhNTxrCAYkvdRsXoMPllxYSN8oYumyUGL6gChF1xK1G0YBE5qbBt83C3tHjWB0Uc="
)
"""One message, b"hello-0", with the property i=0."""

BATCH: Final = base64.b64decode(
    "DgFP86qLAAABPgoRdmVsYS0zLWQ5M2I1MDUwODQQABjjsevmnzRAA0hFWANqiwIKBm15LWtleRKAAsqoWe6gSisySL8/SGj+obXB"
    "xUgU17PuMxXBCzO1DUyJaMCZWYO4aP/9HzqVok/QVDo9spR0erIvZtfJvWYA2m6ByPH9jmWS0zskYT9FgwWJYAX50xWis/6Ry/oc"
    "1QfiBgE3dZJgA3LepjNDvN5vLjWbA6+yHaqiguo6yEmLxqDuZfMDKH9+DNVf0BfyR68iZ1zZ19XlG6qxO+fiVHnjSluaje7fqErp"
    "455uzLs7NjjlKwr1wuphTmg16SNk07oRu/slZbLaU/SLrSfxSPeSC8jymc4INh3HOewHt2xxiudGpvpob0GBQ90eV8YPqaTk/ooh"
    "nY4mpjKGschHGoV5kD96DKUIRotw1CRRtgEAcOpcYvOhs+87849sLFsIE/4kBO/lkgybkmK3c2kxAzPAxA1nSa2sm1eJlKDD2Q0N"
    "shRYuRYe0t+l41tIyfu7Qtj25wdv6fPyunWC6SqN"
)
"""A batch, compressed with ZSTD before it was encrypted: b"hello-0" to b"hello-2"."""
