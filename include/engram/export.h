/* ENGRAM_API stands before what a shared libengram exports. A static one, whose users have
 * ENGRAM_STATIC_DEFINE from CMake or pkg-config, lends nothing to the libraries it ends up in. */
#ifndef ENGRAM_EXPORT_H_
#define ENGRAM_EXPORT_H_

#ifdef ENGRAM_STATIC_DEFINE
#define ENGRAM_API
#else
#define ENGRAM_API __attribute__((visibility("default")))
#endif

#endif /* ENGRAM_EXPORT_H_ */
